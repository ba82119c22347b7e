# hone from a wheel that tools/release has made:
#   tools/release && docker build -t hone . && docker run -v "$PWD:/work" hone sft --config run.yaml
FROM python:3.12-slim-bookworm
RUN pip install --no-cache-dir "torch==2.11.*" --index-url https://download.pytorch.org/whl/cpu
COPY dist/*.whl /tmp/
RUN pip install --no-cache-dir /tmp/*.whl && rm /tmp/*.whl
WORKDIR /work
ENTRYPOINT ["hone"]
