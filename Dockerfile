# Muster in a container: see docs/docker.md.
#
#   docker build -t muster .
#   docker run --rm -p 9092:9092 muster
#
# Both images need the same Python (3.11 or later) at the same path; that of the build needs venv and pip too.
ARG BUILD_IMAGE=python:3.13-slim
ARG IMAGE=python:3.13-slim

FROM ${BUILD_IMAGE} AS build
COPY requirements /src/requirements
# the tools that build stay in /build; what runs goes to /opt/muster
RUN python3 -m venv /build \
 && /build/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /src/requirements/build.txt \
 && python3 -m venv --without-pip /opt/muster \
 && /build/bin/pip --python /opt/muster/bin/python install --no-cache-dir --no-compile --disable-pip-version-check \
        --require-hashes -r /src/requirements/explain.txt
COPY . /src
RUN /build/bin/pip wheel --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation -w /wheel /src \
 && /build/bin/pip --python /opt/muster/bin/python install --no-cache-dir --no-compile --disable-pip-version-check \
        --no-deps --no-index /wheel/*.whl
# bytecode that is never compared with its source: nothing here changes, and a start saves the look
RUN find /opt/muster -name '*.c' -o -name '*.pyx' -o -name '*.pxd' | xargs rm -f \
 && /opt/muster/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/muster/lib

FROM ${IMAGE}
LABEL org.opencontainers.image.title="Muster" \
      org.opencontainers.image.description="A Kafka group coordinator that runs on its own" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --uid 1000 --user-group --no-create-home --home-dir /var/lib/muster --shell /usr/sbin/nologin muster \
 && install -d -o muster -g muster /var/lib/muster /etc/muster \
 && printf '%s\n' \
      '# The defaults of this image; KAFKA_* variables and options win over them.' \
      'listeners=PLAINTEXT://:9092' \
      'advertised.listeners=PLAINTEXT://localhost:9092' \
      'log.dirs=/var/lib/muster/data' > /etc/muster/server.properties
COPY --from=build /opt/muster /opt/muster
# what start scripts for the images of Apache and of Confluent look for; they change some of it
COPY --chown=muster:muster docker/etc/kafka /etc/kafka
COPY --chown=muster:muster docker/etc/confluent /etc/confluent
COPY docker/usr/local/bin /usr/local/bin
ENV PATH=/opt/muster/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER muster
WORKDIR /var/lib/muster
VOLUME /var/lib/muster
EXPOSE 9092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=6s --start-period=10s CMD ["muster-health"]
ENTRYPOINT ["muster-entrypoint"]
