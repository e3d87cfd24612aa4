"""`tally challenge check`: can a competition rest on this challenge?"""

from tallymark.challenges.checking.check import check_challenge
from tallymark.challenges.checking.report import ChallengeReport, Finding, Level

__all__ = ["ChallengeReport", "Finding", "Level", "check_challenge"]
