"""OpenInference (Arize Phoenix): its instrumentation of OpenAI's client, agent and tool by hand.

With `ONLY_AGENT` nothing but the agent's own span is recorded.
"""

import os

from openai import OpenAI
from openinference.instrumentation import TracerProvider
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from weather import EXPORTS, QUESTION, answer, make_client, weather

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(EXPORTS)))
tracer = provider.get_tracer("desk")
tool = weather
if "ONLY_AGENT" not in os.environ:
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    tool = tracer.tool(name="weather")(weather)


@tracer.agent(name="desk")
def desk(question: str) -> str:
    return answer(question, make_client(OpenAI), tool)


desk(QUESTION)
