"""`tally challenge check`: can a competition rest on this challenge?"""

from tallymark.challenges.challenge_check.full_check import check_challenge
from tallymark.challenges.challenge_report import (
    ChallengeReport,
    CheckFinding,
    Level,
)

__all__ = ["ChallengeReport", "CheckFinding", "Level", "check_challenge"]
