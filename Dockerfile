# SPDX-License-Identifier: Apache-2.0
#
# The CPU image: Debian's own UCX, nothing fetched but packages. Two stages, both from the
# package list that ./dev uses. For a reproducible image give BASE with its digest and
# SOURCE_DATE_EPOCH:
#   docker build --build-arg BASE=debian:12-slim@sha256:... --build-arg REVISION=$(git rev-parse HEAD) .
ARG BASE=debian:12-slim

FROM ${BASE} AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
COPY cmake/packages.txt /tmp/packages.txt
RUN apt-get update \
    && awk '$1 == "build" { print $2 }' /tmp/packages.txt \
        | DEBIAN_FRONTEND=noninteractive xargs apt-get install -y --no-install-recommends \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# The prefix map keeps the build folder out of the debug information and so the build-ids
# equal wherever the image is built.
RUN cmake --preset release -DCMAKE_INSTALL_PREFIX=/usr \
        -DCMAKE_C_FLAGS="-ffile-prefix-map=/source=." \
    && cmake --build build/release \
    && DESTDIR=/stage cmake --install build/release --strip

FROM ${BASE}
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# ibverbs-providers comes from the same release as libibverbs1: their interface is private,
# and without a provider there are no devices although /dev/infiniband exists.
COPY cmake/packages.txt /tmp/packages.txt
RUN apt-get update \
    && awk '$1 == "image" { print $2 }' /tmp/packages.txt \
        | DEBIAN_FRONTEND=noninteractive xargs apt-get install -y --no-install-recommends \
    && rm -rf /var/lib/apt/lists/* /tmp/packages.txt \
    && groupadd --gid 65532 kvferry \
    && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /nonexistent \
        --shell /usr/sbin/nologin kvferry \
    && install -d -o 65532 -g 65532 -m 0750 /run/kvferry
COPY --from=build /stage/usr/ /usr/

ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kvferry" \
    org.opencontainers.image.description="Moves LLM KV cache blocks between prefill and decode servers" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.base.name="docker.io/library/debian:12-slim"

# Writable at run time: /run/kvferry alone (mount a volume), so --read-only works.
USER 65532:65532
EXPOSE 7470 7471 7480-7495
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=2s --start-period=5s \
    CMD ["/usr/bin/kvferryctl", "status"]
ENTRYPOINT ["/usr/bin/kvferryd"]
CMD ["--config", "/etc/kvferry/kvferry.yaml"]
