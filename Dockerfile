# syntax=docker/dockerfile:1
# The package as npm would publish it: built with its development tools, run without them.

FROM node:24.21.0-bookworm-slim AS base
WORKDIR /app
COPY package.json package-lock.json .npmrc ./

FROM base AS build
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN npm run prepack

# The optional packages are a second Node for machines whose own is too old; this image brings the right one.
FROM base AS dependencies
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

FROM node:24.21.0-bookworm-slim
LABEL org.opencontainers.image.title="consort" \
      org.opencontainers.image.description="A streaming, OpenAI-compatible gateway for teams of language models" \
      org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /app
COPY --from=dependencies /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY package.json LICENSE ./
# The one place that is written to, the root file system may be read-only: relative paths of a configuration
# (.consort/…) lie in it, and it belongs to the user below, who is a number so that a cluster can tell it from root.
RUN install -d -o 65532 -g 65532 /var/lib/consort
WORKDIR /var/lib/consort
# The heap follows the memory that the container was given.
ENV NODE_ENV=production \
    NODE_OPTIONS=--max-old-space-size-percentage=75
USER 65532:65532
EXPOSE 8080 9464
STOPSIGNAL SIGTERM
# Node is process 1 and hears the signal itself: there is no shell and no npm in between.
ENTRYPOINT ["node", "/app/dist/main.js"]
CMD ["serve", "--config", "/etc/consort/consort.yaml"]
