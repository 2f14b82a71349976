"""The answer as plain values, the source of `answer.json`, the terminal output and the page."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe.tune.chance import shown_share
from pauseframe.tune.trials import seed_violations

if TYPE_CHECKING:
    from pauseframe.sweep.statistics import Estimate
    from pauseframe.tune.answer import Answer, Judged, Slack
    from pauseframe.tune.search import Trial
    from pauseframe.tune.spec import Spec
    from pauseframe.tune.study import Study

ANSWER = "answer.json"


def as_record(study: Study, answer: Answer) -> dict[str, Any]:
    """A complete answer (docs/how-to/tune.md)."""
    spec = study.spec
    return {
        "program": "pauseframe tune",
        "version": _core.__version__,
        "name": study.name,
        "objectives": [{"metric": one.metric.text, "maximize": one.maximize} for one in spec.objectives],
        "constraints": [one.text for one in spec.limits],
        "constraint_share": spec.constraint_share,
        "verdict": answer.verdict,
        "checked_before_runs": _static(spec),
        "scenarios": [one.name for one in spec.situations],
        "seeds": answer.seeds,
        "parameters": [
            {"path": one.path, "low": one.value(one.low), "high": one.value(one.high), "log": one.log}
            if one.is_range
            else {"path": one.path, "choices": list(one.choices)}
            for one in study.parameters
        ],
        "bounds": [asdict(one) for one in study.bounds],
        "tolerance": spec.sensitivity,
        "recommended": None if answer.recommended is None else _judged(answer.recommended, spec),
        "nearest": None if answer.nearest is None else _judged(answer.nearest, spec),
        "front": [_judged(one, spec) for one in answer.front],
        "references": [_judged(one, spec) for one in answer.references],
        "rejected": [_judged(one, spec) for one in answer.rejected],
        "around": answer.around,
        "sensitivity": [_slack(one) for one in answer.sensitivity],
        "trials": [_trial(one, spec) for one in answer.trials],
        "notes": answer.notes,
        "cost": answer.cost,
    }


def _static(spec: Spec) -> list[str]:
    checks = ["headroom of every lossless link (IEEE 802.1Qbb Annex O)"]
    if not spec.may_deadlock:
        checks.append("no deadlock risk of lossless routes")
    if spec.cable:
        checks.append(f"headroom for cables of {spec.cable}")
    if spec.buffer:
        checks.append(f"fits {spec.buffer} of packet memory per switch")
    return checks


def _judged(one: Judged, spec: Spec) -> dict[str, Any]:
    objectives = []
    for number, objective in enumerate(spec.objectives[: len(one.estimates)]):
        ratio = one.ratios[number] if one.ratios else None
        interval = one.predictions[number]
        objectives.append(
            {
                "metric": objective.metric.text,
                **_estimate(one.estimates[number]),
                "prediction": {
                    "low": _number(interval.low),
                    "high": _number(interval.high),
                    "covers_one": interval.covers(),
                    "covers_18_of_20": interval.covers(18, 20),
                },
                "ratio": None if ratio is None else _estimate(ratio),
                "samples": one.samples.get(objective.metric.text),
            }
        )
    return {
        "name": one.name,
        "source": one.source,
        "settings": one.changes,
        "refused": one.setting.refused,
        "failed": len(one.setting.failures),
        "objectives": objectives,
        "constraints": [
            {"constraint": text, "broken": count, "worst": _number(one.worst.get(text))}
            for text, count in one.broken.items()
        ],
        "seeds": one.seeds,
        "broken": one.any_broken,
        "shown_share": shown_share(one.any_broken, one.seeds) if one.seeds else None,
        "unfinished": one.unfinished,
    }


def _estimate(one: Estimate) -> dict[str, Any]:
    return {
        "n": one.n,
        "median": _number(one.median),
        "confidence": {"low": _number(one.low), "high": _number(one.high), "level": one.coverage},
    }


def _slack(one: Slack) -> dict[str, Any]:
    points = [asdict(point) | {"ratios": list(map(_number, point.ratios))} for point in one.points]
    return asdict(one) | {"points": points}


def _trial(one: Trial, spec: Spec) -> dict[str, Any]:
    texts = [limit.text for limit in spec.limits]
    worst = {text: max(seed_violations(one.setting, spec, text).values(), default=0.0) for text in texts}
    broken = {text: _number(most) for text, most in worst.items() if most > 0}
    return {
        "number": one.number,
        "settings": one.setting.changes,
        "origin": one.origin,
        "state": one.state,
        "values": [_number(value) for value in one.values],
        "seeds": len(one.setting.seeds),
        "refused": one.setting.refused,
        "broken": broken,
    }


def _number(value: float | None) -> float | None:
    """A number for JSON, which has no infinity; missing values become null."""
    return None if value is None or math.isinf(value) else value
