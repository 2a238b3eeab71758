# The image of Belfry. Build it with `docker buildx build --platform linux/amd64,linux/arm64 --sbom=true .`
# Nothing runs emulated except the installation of tini: npm fetches the programs of the other platform.

FROM --platform=$BUILDPLATFORM node:24-trixie-slim AS build
ARG TARGETARCH
WORKDIR /source
COPY . .
RUN npm ci --omit=dev --no-audit --no-fund \
 && node bin/build-program.mjs /app
WORKDIR /app
# npm installs what npm-shrinkwrap.json lists for the platform of the image, and runs no scripts. The image
# has a Node already. npm writes the list of all packages, which is part of the image.
RUN cpu=$(echo "${TARGETARCH:-$(dpkg --print-architecture)}" | sed s/amd64/x64/) \
 && npm ci --omit=dev --ignore-scripts --no-audit --no-fund --os=linux --cpu="$cpu" --libc=glibc \
 && rm -r node_modules/node-linux-* \
 && npm sbom --omit=dev --sbom-format=cyclonedx > sbom.cdx.json

FROM node:24-trixie-slim AS node

FROM debian:trixie-slim
# PostgreSQL and its guard leave processes to process 1, which must reap them.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* \
 && install --directory --owner=10001 --group=10001 --mode=0700 /data \
 && ln -s /app/bin/belfry.mjs /usr/local/bin/belfry
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=build /app /app

# A number, so that Kubernetes sees that it is not root. Any other user works as well, if it owns /data.
USER 10001:10001
WORKDIR /data
ENV HOST=0.0.0.0 PORT=3000 DATA_DIR=/data
VOLUME /data
EXPOSE 3000
STOPSIGNAL SIGTERM
# A database that is away makes /readyz fail, but a new container would not help.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["tini", "--", "belfry"]
CMD ["start"]
