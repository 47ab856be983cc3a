"""What a pass did and what one would cost, as REST, the command line and the pages tell it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from coffer import llm
from memory.files import markdown
from transcripts.services.batch import Estimate, Result
from transcripts.services.distilling import Report


def as_dict(result: Result) -> dict[str, Any]:
    """A whole pass: insights, the entries they became, and each session that gave none for a reason."""
    return {
        "insights": [
            {"session_id": report.session.session_id, **insight.as_dict()}
            for report in result.reports
            for insight in report.insights
        ],
        "journal_entries": [entry for report in result.reports for entry in entries(report)],
        "skipped": [{"session_id": report.session.session_id, "reason": reason} for report, reason in skipped(result)],
        "masked": dict(result.masked),
        "known": sum(report.known for report in result.reports),
        "calls": sum(report.calls for report in result.reports),
        "tokens": sum(report.tokens for report in result.reports),
        "remaining": result.remaining,
        "stopped": result.stopped.message if result.stopped else None,
    }


def entries(report: Report) -> Iterator[dict[str, Any]]:
    """The journal entries of a session."""
    for entry in report.entries:
        at = markdown.stamp(entry.stamp) if entry.stamp else None
        yield {
            "session_id": report.session.session_id,
            "id": f"journal/{entry.period}",
            "store": report.store,
            "period": entry.period,
            "at": at,
        }


def skipped(result: Result) -> Iterator[tuple[Report, str]]:
    """The sessions of which something was not distilled, each with the reason."""
    for report in result.reports:
        if report.reason:
            yield report, report.reason
        elif report.outcome == "partly":
            yield report, "there is more in it; the next pass goes on"


def reasons(result: Result) -> Counter[str]:
    """The same, counted by reason."""
    return Counter(reason for _, reason in skipped(result))


def estimate(found: Estimate) -> dict[str, Any]:
    """An estimate beside what the day's budget still allows."""
    left = llm.remaining()
    return {
        **asdict(found),
        "skipped": dict(found.skipped),
        "calls_left_today": left.calls,
        "tokens_left_today": left.tokens,
    }
