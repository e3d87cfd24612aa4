"""The parts of `llm_judge`: rubrics, what the judge is shown, its verdict, and reaching it."""
