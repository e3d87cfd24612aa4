"""MLflow: autologging of OpenAI's client; as OpenTelemetry spans, or as a trace of its own store.

The environment says which: it names an OTLP exporter, or allows the store in files.
"""

import json
import os
import urllib.request

import mlflow
from openai import OpenAI
from weather import QUESTION, answer, make_client, weather

mlflow.openai.autolog()
tool = mlflow.trace(name="weather", span_type="TOOL")(weather)


@mlflow.trace(name="desk", span_type="AGENT")
def desk(question: str) -> str:
    return answer(question, make_client(OpenAI), tool)


desk(QUESTION)
mlflow.flush_trace_async_logging()
if "MLFLOW_ALLOW_FILE_STORE" in os.environ:
    trace = json.loads(mlflow.get_trace(mlflow.get_last_active_trace_id()).to_json())
    del trace["info"]["tags"], trace["info"]["trace_metadata"]  # they tell of this machine
    body = json.dumps(trace).encode() + b"\n"
    urllib.request.urlopen(f"{os.environ['RECORDER']}/file", data=body).close()
