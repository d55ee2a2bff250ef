#!/usr/bin/env bash
# A robot's computer under emulation: Debian's Python for aarch64, this package's runtime with its tests, Cyclone DDS.
#   tests/aarch64/install.sh FOLDER [ONNXRUNTIME]    then FOLDER/python is that Python, FOLDER/pixelgait-profile a command
# Needs qemu-user-static mmdebstrap gcc-aarch64-linux-gnu debian-archive-keyring, and pip. Nothing is installed here.
set -euo pipefail
cd "$(dirname "$0")/../.."
there=$(realpath -m "$1") onnxruntime=${2:-1.23.2} cyclonedds=0.10.2  # as Debian's C library
root=$there/root site=$there/site
packages=python3.11,python3.11-dev,libstdc++6,cyclonedds-dev,ca-certificates
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
mkdir -p "$there"
# Packages are only unpacked: to configure them under emulation takes ten minutes.
[ -x "$root/usr/bin/python3.11" ] || mmdebstrap --quiet --arch=arm64 --variant=extract --include=$packages bookworm "$root" \
    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main"
python3 -m pip wheel --quiet --no-deps --wheel-dir "$there/wheel" .
rm -rf "$site"
python3 -m pip install --quiet --target "$site" --no-compile --only-binary=:all: --implementation cp --python-version 3.11 \
    --platform={manylinux_2_{28,27,17},manylinux2014}_aarch64 \
    "$(ls "$there"/wheel/pixelgait-*.whl)[record]" "onnxruntime==$onnxruntime" pyyaml pytest imageio

# Cyclone DDS has no wheel for aarch64: its Python part, from PyPI's source, is compiled against Debian's library.
BUILDING_SDIST=1 python3 -m pip download --quiet --no-deps --no-binary=:all: --dest "$there" "cyclonedds==$cyclonedds"
tar -xzf "$there/cyclonedds-$cyclonedds.tar.gz" -C "$there"
source=$there/cyclonedds-$cyclonedds library=usr/lib/aarch64-linux-gnu
cp -r "$source/cyclonedds" "$site"
printf "in_wheel = False\nlibrary_path = '/$library/libddsc.so'\n" > "$site/cyclonedds/__library__.py"
aarch64-linux-gnu-gcc -O2 -shared -fPIC -w -I"$root"/usr/include{,/aarch64-linux-gnu,/python3.11} -I"$source/clayer" \
    "$source"/clayer/*.c "$root/$library/libddsc.so" -Wl,--allow-shlib-undefined -o "$site/cyclonedds/_clayer.abi3.so"

# Child processes start the emulator as well, by this script.
cat > "$there/python" <<END
#!/bin/sh
QEMU_CPU=cortex-a72 PYTHONPATH=$PWD:$site exec qemu-aarch64-static -L $root $root/usr/bin/python3.11 "\$@"
END
echo "import sys; sys.executable = '$there/python'" > "$site/sitecustomize.py"
for command in "$site"/bin/pixelgait-*; do
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$there/python" "$command" > "$there/$(basename "$command")"
done
chmod +x "$there"/python "$there"/pixelgait-*
