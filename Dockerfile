# For amd64 and arm64:
# docker build --target runtime -t pixelgait .         on a robot: ROS 2 Jazzy and the controller
# docker build --target train -t pixelgait-train .     elsewhere: simulators, training, export
# docker run --rm --network host pixelgait pixelgait-run rover --duration 20

FROM ros:jazzy-ros-base AS runtime
# Ubuntu keeps no older versions that could be asked for.
# hadolint ignore=DL3008
RUN apt-get update -q \
    && apt-get install -qy --no-install-recommends python3-venv \
    && rm -rf /var/lib/apt/lists/*
COPY . /src
# The virtual environment sees the distribution's rclpy, whose messages are built for its numpy.
RUN python3 -m venv --system-site-packages /opt/pixelgait \
    && /opt/pixelgait/bin/pip install --no-cache-dir '/src[robot,record]' 'numpy<2' \
    && rm -rf /src
ENV PATH=/opt/pixelgait/bin:$PATH
CMD ["pixelgait-run", "--help"]

# PyBullet has a wheel for this Python on amd64; on arm64 it is compiled, and slim has no compiler.
FROM python:3.11-slim AS pybullet
# hadolint ignore=DL3008
RUN apt-get update -q && apt-get install -qy --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels pybullet==3.2.7

FROM python:3.11-slim AS train
COPY --from=pybullet /wheels /wheels
COPY . /src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0+cpu \
    && pip install --no-cache-dir --find-links /wheels '/src[train]' \
    && rm -rf /src /wheels
WORKDIR /work
CMD ["pixelgait-train", "--help"]
