"""Logfire: its instrumentation of OpenAI's client, and `@logfire.instrument`."""

import logfire
from openai import OpenAI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from weather import EXPORTS, QUESTION, answer, make_client

exporter = SimpleSpanProcessor(OTLPSpanExporter(EXPORTS))
logfire.configure(send_to_logfire=False, console=False, additional_span_processors=[exporter])
logfire.instrument_openai()


@logfire.instrument("desk", record_return=True)
def desk(question: str) -> str:
    return answer(question, make_client(OpenAI))


desk(QUESTION)
