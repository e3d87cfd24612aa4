"""OpenLLMetry (Traceloop): its SDK, which instruments OpenAI's client."""

from openai import OpenAI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from traceloop.sdk import Traceloop
from traceloop.sdk.decorators import tool as traced_tool
from traceloop.sdk.decorators import workflow
from weather import EXPORTS, QUESTION, answer, make_client, weather

Traceloop.init(app_name="desk", exporter=OTLPSpanExporter(EXPORTS), disable_batch=True)
tool = traced_tool(name="weather")(weather)


@workflow(name="desk")
def desk(question: str) -> str:
    return answer(question, make_client(OpenAI), tool)


desk(QUESTION)
