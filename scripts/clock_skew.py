"""Run `tally` with a clock that is off by the seconds in a file.

TALLY_CLOCK_FILE=shift.txt python -m scripts.clock_skew serve
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_LOOK_S = 0.1
"""The file is read no more often."""
_now, _now_ns = time.time, time.time_ns


class ShiftedClock:
    """Seconds since 1970, and some more or less."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds = 0.0
        self._looked = -_LOOK_S

    @property
    def shift(self) -> float:
        """By how much it is off."""
        if time.monotonic() - self._looked >= _LOOK_S:
            with suppress(OSError, ValueError):  # while it is being written
                self._seconds = float(self._file.read_text("ascii"))
            self._looked = time.monotonic()
        return self._seconds

    def install(self) -> None:
        """From here on, `time.time` is by this clock, for whoever asks."""
        time.time = lambda: _now() + self.shift
        time.time_ns = lambda: _now_ns() + int(self.shift * 1e9)


if __name__ == "__main__":
    ShiftedClock(Path(os.environ["TALLY_CLOCK_FILE"])).install()
    from tallymark.cli import main  # after the clock: some keep the function as it is then

    main()
