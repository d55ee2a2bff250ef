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
    && /opt/pixelgait/bin/pip install --no-cache-dir '/src[record]' 'numpy<2' \
    && rm -rf /src
ENV PATH=/opt/pixelgait/bin:$PATH
CMD ["pixelgait-run", "--help"]

# The newest Python that PyBullet has a wheel for; elsewhere it is compiled, and slim has no compiler.
FROM python:3.11-slim AS train
COPY . /src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0+cpu \
    && pip install --no-cache-dir '/src[train]' \
    && rm -rf /src
WORKDIR /work
CMD ["pixelgait-train", "--help"]
