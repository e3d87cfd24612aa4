"""MLflow: autologging of OpenAI's client; the OTLP exporter is named by the environment."""

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
