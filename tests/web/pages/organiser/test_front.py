"""The front: what waits for what and why, what failed, who is paused; and ending that."""

from __future__ import annotations

from sqlalchemy import update
from starlette.testclient import TestClient
from tests.web.conftest import send
from tests.web.page_samples import NOW, ODD
from tests.web.pages.organiser.conftest import post
from tests.web.test_site import HARMFUL, Elements

from tallymark.challenges.attempt import Payload
from tallymark.service.app import App
from tallymark.store.jobs import NewJob, jobs


def wait(app: App, why: str, hidden: str | None = None) -> str:
    """An attempt that was submitted, and could not be scored."""
    store = app.store
    entered = store.attempts.enter("maze", "walter", at=NOW - 300, seed=1)
    store.attempts.submit(entered.id, "walter", Payload(submission=1), at=NOW - 240)
    store.attempts.wait(entered.id, why, hidden, at=NOW - 200)
    return entered.id


def fail(app: App, subject: str, error: str, state: str = "failed") -> str:
    """A job that ended so."""
    job = app.store.jobs.add(NewJob(kind="rescore", subject=subject, owner="olga"))
    values = {"state": state, "error": error, "finished_at": NOW - 50}
    app.store._database.write(
        lambda c: c.execute(update(jobs).where(jobs.c.id == job.id).values(values)).rowcount
    )
    return job.id


def test_players_of_both_sides_are_counted(organiser: TestClient) -> None:
    lines = organiser.get("/organiser?format=json").json()["challenges"]
    counted = {each["challenge"]["name"]: each["agents"] for each in lines}
    assert counted["guard"] == 4


def test_a_quiet_front_says_so(organiser: TestClient) -> None:
    assert "Nothing needs you" in organiser.get("/organiser").text


def test_what_waits_is_shown_with_its_reason_and_age_by_challenge(
    own_app: App, organiser: TestClient
) -> None:
    attempt = wait(own_app, "the judge does not answer", "its key is empty")
    page = organiser.get("/organiser").text
    assert "1 attempt waits for a score" in page
    assert "will be retried: the judge does not answer" in page
    assert "4 min ago" in page
    assert "its key is empty" not in page
    assert "its key is empty" in organiser.get(f"/organiser/attempts/{attempt}").text
    told = organiser.get("/organiser?challenge=maze&format=json").json()
    assert [each["attempt"] for each in told["waiting"]] == [attempt]
    assert not organiser.get("/organiser?challenge=frugal&format=json").json()["waiting"]
    assert organiser.get("/organiser?challenge=nothing").status_code == 404


def test_a_job_that_failed_is_begun_anew(own_app: App, organiser: TestClient) -> None:
    job = fail(own_app, "maze", "the plugin was away")
    page = organiser.get("/organiser").text
    assert "1 thing needs you" in page
    assert "the plugin was away" in page
    assert send(organiser, "/organiser", "retry", job=job).status_code == 303
    assert own_app.store.jobs.get(job).state == "queued"
    again = post(organiser, "/organiser", "retry", job=job)
    assert again.status_code == 409
    assert "nothing to restart" in again.text
    assert send(organiser, f"/organiser/jobs/{job}", "cancel", job=job).status_code == 303
    assert own_app.store.jobs.get(job).state == "cancelled"


def test_one_that_was_done_since_needs_nobody(own_app: App, organiser: TestClient) -> None:
    fail(own_app, "maze", "away")
    fail(own_app, "maze", "", state="done")
    assert "Nothing needs you" in organiser.get("/organiser").text


def test_what_was_submitted_is_not_cancelled(own_app: App, organiser: TestClient) -> None:
    job = own_app.store.jobs.add(NewJob(kind="score", subject="a1", owner="alice"))
    refused = post(organiser, "/organiser", "cancel", job=job.id)
    assert refused.status_code == 409
    assert "cannot be cancelled" in refused.text


def test_nobody_is_resumed_who_is_not_paused(organiser: TestClient) -> None:
    refused = post(organiser, "/organiser", "resume", challenge="maze", agent="alice")
    assert refused.status_code == 422
    assert "is not paused" in refused.text


def test_reasons_and_errors_of_others_are_harmless(own_app: App, organiser: TestClient) -> None:
    attempt = wait(own_app, ODD, ODD)
    job = fail(own_app, f"maze{ODD[:500]}", ODD)
    for address in ("/organiser", f"/organiser/attempts/{attempt}", f"/organiser/jobs/{job}"):
        page = organiser.get(address)
        assert page.status_code == 200
        assert not HARMFUL.search(page.text)
        assert "img" not in [tag for tag, _ in Elements(page.text).found]


def test_the_queue_is_a_part_that_script_asks_for(own_app: App, organiser: TestClient) -> None:
    wait(own_app, "soon")
    part = organiser.get("/organiser?part=queue").text
    assert part.lstrip().startswith('<div class="section-head" data-still>')
    assert "<html" not in part
