"""Red against blue: attacks and defences, who meets whom, verdicts, points and strengths."""
