"""`tally challenge check`: can a competition rest on this challenge?"""

from tallymark.challenges.checking.check import check_challenge
from tallymark.challenges.checking.report import ChallengeReport, CheckFinding, Level

__all__ = ["ChallengeReport", "CheckFinding", "Level", "check_challenge"]
