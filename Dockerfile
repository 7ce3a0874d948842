# Campanile's image: `docker build --tag campanile .`
# docs/containers.md says how to run it; scripts/image.sh builds and tries it where no engine and no registry can be reached.

ARG SWIFT_IMAGE=docker.io/library/swift:6.3-bookworm
ARG BASE_IMAGE=docker.io/library/debian:bookworm-slim

FROM ${SWIFT_IMAGE} AS build
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        libmicrohttpd-dev libsqlite3-dev libyaml-dev libpq-dev pkg-config \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /campanile

# The packages that Campanile is made with, fetched and compiled before its sources are looked at: this layer stays as long as
# Package.swift does.
COPY Package.swift Package.resolve[d] ./
COPY scripts/compile-packages.sh scripts/
# Swift's libraries stand in the program.
ENV FLAGS="-c release --static-swift-stdlib"
RUN scripts/compile-packages.sh $FLAGS

COPY migrations migrations
COPY openapi.yaml ./
COPY Sources Sources
# `campanile --version` says it.
ARG REVISION=unknown
RUN mkdir -p .build && printf %s "$REVISION" >.build/revision.txt && swift build $FLAGS --product campanile \
    && install -D --strip "$(swift build $FLAGS --show-bin-path)/campanile" /image/usr/local/bin/campanile

FROM ${BASE_IMAGE}
# useradd notes the day. A release gives the commit's time instead, so that its image has the same bytes every day.
ARG SOURCE_DATE_EPOCH
# What the program links, and the certificates of the authorities that Apple and Google are known by. The number of the user is
# fixed, so that volumes keep their owner from one image to the next.
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        ca-certificates libmicrohttpd12 libpq5 libsqlite3-0 libstdc++6 libyaml-0-2 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/cache/ldconfig/* /var/log/* \
    && useradd --system --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin campanile \
    && install -d -o campanile -g campanile -m 0700 /data \
    && install -d /etc/campanile
# A release gives a folder in the place of the stage, with the program that it has built already (scripts/image.sh).
COPY --from=build /image/ /

ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Campanile" \
    org.opencontainers.image.description="The notification backend behind a native app: inbox, device registry, badge and push" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"

# Within a container 127.0.0.1 is the container's own: who may come in is decided by what is published. The variable of the database
# beats a file's `database`: with PostgreSQL give the address in it (docker run --env CAMPANILE_DATABASE=postgres://…).
ENV CAMPANILE_HOST=0.0.0.0 \
    CAMPANILE_DATABASE=/data/campanile.sqlite
# The user campanile, by its number: a cluster that starts nothing as root (runAsNonRoot) can't tell by a name.
USER 10001
# campanile.yaml is looked for here, and the paths that it names begin here.
WORKDIR /etc/campanile
VOLUME /data
EXPOSE 3001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["campanile", "health"]
ENTRYPOINT ["campanile"]
CMD ["serve"]
