"""The page of an evaluation of a reward model: one file that holds everything it shows."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from reward_models.evaluate.accuracy import AGAINST, Discrimination, Ordering
from reward_models.evaluate.estimate import Estimate, Rate
from reward_models.evaluate.harness import Report
from reward_models.evaluate.opd import GroupOpd
from reward_models.interface import LabelledEpisode
from robot_stack.disk.durable import write_durable
from robot_stack.report.film import draw_film
from robot_stack.report.html import STYLE
from robot_stack.report.plots.reward_evaluation import draw_finals, draw_kinds, film_of, worst
from robot_stack.report.plots.style import Sheet

PICTURED = 4
"""Episodes that the model is most wrong about, drawn."""
WHOLE = ".whole { white-space: nowrap; }"
"""A figure and its interval stay on one line."""
_GLOSSARY = """VOC: Spearman's correlation of Φ with time, on successes; a clock has 1. Reversed: the clip played
backwards, -1 is good. Error: mean distance of Φ from true progress. AUC: probability that a success ends with the
higher Φ. False done: an episode without success in which the deployed rule ever said done; its upper limit is Wilson's,
95 %. Other intervals are by bootstrap over episodes."""


def write_reward_page(
    path: Path,
    report: Report,
    episodes: Sequence[LabelledEpisode],
    *,
    title: str,
    fit_s: float | None,
    left_out: Mapping[str, str],
) -> Path:
    """Write the page of an evaluation; returns its path.

    Args:
        path: Of the page.
        report: What came out.
        episodes: Those that were scored, in the order of the report.
        title: Heading.
        fit_s: How long the model took to fit, if it was fitted for this.
        left_out: Episode -> why it was not scored.
    """
    with tempfile.TemporaryDirectory() as folder:
        finals, kinds, wrong = (Path(folder) / f"{name}.png" for name in ("finals", "kinds", "wrong"))
        draw_finals(report.judged, finals)
        draw_kinds(report, episodes, kinds)
        chosen = worst(report, PICTURED)
        with Sheet(wrong, -(-len(chosen) // 2), min(2, len(chosen)), size=(12.0, 3.4 * -(-len(chosen) // 2))) as panels:
            for panel, i in zip(panels, chosen):
                draw_film(panel, film_of(report.judged[i], episodes[i], report.dt_s, report.judged[i].name))
            for panel in panels[len(chosen) :]:
                panel.set_axis_off()
        body = _body(report, finals, kinds, wrong, fit_s, left_out)
    page = f"""<!doctype html>
<html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>{escape(title)}</title><style>{STYLE}{WHOLE}</style></head><body><main>
<h1>{escape(title)}</h1>
{body}
</main></body></html>
"""
    write_durable(path, page)
    return path


_NO_PHI = (
    "This model does not say how far an episode is. Its checks, axioms and changes are of its probability of done; "
    "what only Φ can tell is not known."
)


def _body(
    report: Report, finals: Path, kinds: Path, wrong: Path, fit_s: float | None, left_out: Mapping[str, str]
) -> str:
    won = sum(one.success for one in report.judged)
    fitted = f" · fitted in {fit_s:.0f} s" if fit_s is not None else ""
    unread = f" · {100 * report.unreadable:.0f} % of frames unreadable" if report.unreadable else ""
    parts = [
        f"<p class=sub>{escape(report.model)} {escape(report.version)} · {len(report.judged)} episodes, {won} of them "
        f"successes · seed {report.seed}{fitted}{unread} · <b>{report.verdict}</b></p>",
        "" if report.seen is None else f"<p>{escape(report.seen.words({one.name for one in report.judged}))}</p>",
        "" if any(one.known.any() for one in report.judged) else f"<p class=caption>{_NO_PHI}</p>",
        _checks(report),
        f"<p class=caption>{escape(_GLOSSARY)}</p>",
        "<h2>Φ of the last frame, by what happened</h2>", picture(finals, "final Φ by kind"),
        "<h2>By class</h2>", _classes(report),
        "<h2>By kind of failure</h2>", _kinds(report),
        "<h2>Beside models that look at nothing</h2>", _nulls(report),
        "<h2>One episode of each kind</h2>", picture(kinds, "Φ along an episode of each kind"),
        "<p class=caption>Of each kind the episode with the middle error, each frame scored from its past only.</p>",
        "<h2>Where it is most wrong</h2>", picture(wrong, "episodes with the largest errors"),
        "<p class=caption>False dones first, then missed successes, then the largest errors of the last Φ: "
        "against the true progress, or, where nobody knows it, against the outcome.</p>",
        "<h2>Done</h2>", _done(report),
        "<h2>Canaries</h2>", _canaries(report),
        "<h2>The same, seen otherwise</h2>", _robustness(report),
        "<h2>What must hold of any Φ</h2>", _axioms(report),
        "<h2>Under other words</h2>", _words(report),
        "<h2>How episodes went, by Φ alone</h2>", opd_table(report.opd),
        "<h2>Cost</h2>", _cost(report),
        _refused({**left_out, **report.refused, **report.skipped}),
    ]  # fmt: skip
    return "\n".join(parts)


def rows(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return an HTML table; its cells are HTML already."""
    titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><tr>{titles}</tr>{body}</table>"


def number(value: float | Estimate, digits: int = 2) -> str:
    """Format a number as HTML, with its interval where it has one; "–" if it is not known."""
    if isinstance(value, Estimate):
        if not value.n:
            return "–"
        ends = f"{value.low:.{digits}f} to {value.high:.{digits}f}"
        return f"<span class=whole>{value.value:.{digits}f} <span class=sub>{ends}</span></span>"
    return "–" if value != value else f"{value:.{digits}f}"


def rate(found: Rate) -> str:
    """Format a rate as HTML: count, trials and interval; "–" without a trial."""
    if not found.n:
        return "–"
    ends = f"{100 * found.low:.1f} to {100 * found.high:.1f} %"
    return f"<span class=whole>{found.count} of {found.n} <span class=sub>{ends}</span></span>"


def picture(path: Path, words: str) -> str:
    """Return an HTML image that holds the PNG itself."""
    content = base64.b64encode(path.read_bytes()).decode()
    return f"<img alt='{escape(words)}' src='data:image/png;base64,{content}'>"


def _kinds(report: Report) -> str:
    words = {True: "never", False: "yes", None: "not known"}
    return rows(
        ("kind", "shown to the model", "false done", "Φ of the last frame", "true", "AUC against successes"),
        [
            (
                escape(kind.replace("_", " ")), words[of.unseen], rate(of.false_done), number(of.final_phi),
                number(of.final_truth), number(of.auc, 3),
            )
            for kind, of in report.kinds.items()
        ],
    )  # fmt: skip


def _checks(report: Report) -> str:
    marks = {True: "<span class=met>✓ met</span>", False: "<span class=unmet>✗ not met</span>", None: "not known"}
    return rows(
        ("may it be used?", "found", "wanted", ""),
        [(escape(c.name), escape(c.found), escape(c.wanted), marks[c.passed]) for c in report.checks],
    )


def _classes(report: Report) -> str:
    lines = []
    for name, found in sorted(
        report.accuracy.items(), key=lambda entry: (entry[0] == "all", -entry[1].final_phi.value)
    ):
        against = report.discrimination.auc_against.get(name)
        last = [number(found.final_phi), number(found.final_truth)]
        along = [number(found.mae), number(found.near.value), number(found.spearman.value)]
        told = number(against) if against else ""
        lines.append((escape(name.replace("_", " ")), str(found.final_phi.n), *last, *along, told))
    head = ("class", "scored", "last Φ", "truth", "error", "within 0.2", "rank corr.", "AUC of successes against it")
    order = {True: "rises", False: "does not rise", None: "is not known"}[report.ranking.in_order]
    turned = report.backwards
    return rows(head, lines) + (
        f"<p class=caption>Mean last Φ from fail over partial to success {order}; "
        f"{number(report.ranking.order_rate)} of triples do; Kendall's τ {number(report.ranking.kendall_tau)}. "
        f"VOC {number(report.ordering.voc)} ({report.ordering.degenerate} without an order); "
        f"reversed {number(turned.voc_reversed)}; by pairs {number(turned.voc_pairs)}, VROC {number(turned.vroc)}, "
        f"F1 {number(turned.f1)}, negative {number(turned.negative_rate)}.</p>"
    )


def _nulls(report: Report) -> str:
    words = {True: "<span class=met>yes</span>", False: "<span class=unmet>no</span>", None: "not known"}
    own = (report.ordering, report.accuracy["all"].mae.value, report.discrimination)
    lines = [_null_line(f"<b>{escape(report.model)}</b>", *own, "")]
    for name, null in report.nulls.items():
        lines.append(_null_line(name, null.ordering, null.mae, null.discrimination, words[null.beaten]))
    head = ("", "VOC", "error", "AUC", *(f"AUC against {name}" for name in AGAINST), "false done", "beaten")
    return rows(head, lines)


def _null_line(name: str, order: Ordering, mae: float, found: Discrimination, word: str) -> tuple[str, ...]:
    against = [number(found.auc_against[n].value) if n in found.auc_against else "–" for n in AGAINST]
    return (name, number(order.voc.value), number(mae), number(found.auc.value), *against, rate(found.false_done), word)


def _done(report: Report) -> str:
    found = report.discrimination
    lines = [
        ("false done, as deployed", rate(found.false_done)),
        ("false done, without the gate on proprio", rate(found.false_done_ungated)),
        ("missed successes", rate(found.missed)),
        ("said before it was true", rate(found.early)),
        ("seconds from true success to the word", number(found.detect_s)),
        ("AUC of the last probability", number(found.auc_done, 3)),
        ("calibration error of the probability", number(found.calibration)),
    ]
    return rows(("done", ""), lines)


def _canaries(report: Report) -> str:
    lines = [(escape(name), rate(c.called_done), number(c.mean_phi)) for name, c in report.canaries.items()]
    return rows(("clips that show no finished task", "called done", "mean last Φ"), lines)


def _robustness(report: Report) -> str:
    lines = []
    for name, change in report.robustness.items():
        words = escape(change.refused) if change.refused else f"{100 * change.unreadable:.0f} %"
        lines.append((escape(name), number(change.mean, 3), number(change.final, 3), words))
    return rows(("change", "mean |ΔΦ|", "|ΔΦ| of the last frame", "unreadable"), lines)


def _axioms(report: Report) -> str:
    found = report.axioms
    yes = {True: "yes", False: "<span class=unmet>no</span>"}
    lines = [
        ("the future changes nothing", f"{yes[found.causal]}, largest change {found.future_change:.2g}"),
        (
            "the same question has the same answer",
            f"{yes[found.deterministic]}, largest difference {found.repeat_change:.2g}",
        ),
        ("Φ stays while nothing happens, mean |ΔΦ|", number(found.hold_change, 3)),
        *((f"pairs in the right order, {size} steps", number(share)) for size, share in found.direction.items()),
        ("two steps add up to one, residual", number(found.macro_residual, 3)),
        ("a pair and its reverse agree, residual", number(found.reverse_residual, 3)),
    ]
    return rows(("axiom", "found"), lines)


def _words(report: Report) -> str:
    found = report.words
    head = ("text", *(f"video {i + 1}" for i in range(len(found.matrix))))
    lines = [(escape(text), *(number(row[column]) for row in found.matrix)) for column, text in enumerate(found.texts)]
    caption = f"Mean last Φ of successful videos; own text less the best other: {number(found.margin)}."
    return rows(head, lines) + f"<p class=caption>{caption}</p>"


def opd_table(groups: Mapping[str, GroupOpd]) -> str:
    """Return an HTML table of the OPD metrics of groups of episodes."""
    lines = []
    for name, group in groups.items():
        figures = [number(figure) for figure in (group.milestone, group.peak, group.path)]
        steadiness = [number(group.regret, 3), number(group.stagnation)]
        lines.append((escape(name.replace("_", " ")), str(group.episodes), *figures, *steadiness))
    head = ("", "episodes", "milestone", "highest Φ", "directness ↑", "regret ↓", "standing still ↓")
    return rows(head, lines)


def _cost(report: Report) -> str:
    found = report.cost
    return (
        f"<p>{found.ms_per_frame:.2f} ms a frame one by one (median {found.ms_p50:.2f}, 95 % within {found.ms_p95:.2f} "
        f"ms), {found.ms_per_frame_batched:.2f} ms in a batch; {found.queries_per_frame:.1f} questions a frame. "
        f"This evaluation asked {found.queries} questions, which showed {found.images} images.</p>"
    )


def _refused(reasons: Mapping[str, str]) -> str:
    if not reasons:
        return ""
    entries = "".join(f"<li>{escape(name)}: {escape(reason)}</li>" for name, reason in reasons.items())
    return f"<h2>Not scored</h2><ul>{entries}</ul>"
