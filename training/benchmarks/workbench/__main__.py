"""The workbench: its server under load and under attack, and a simulated annotator.

    python -m training.benchmarks.workbench --only server
    python -m training.benchmarks.workbench --only actions reparse journal roundtrip

Each part is a function of a module of this folder, whose docstring says what its figures are.
"""

from __future__ import annotations

from training.benchmarks.workbench import browser, server, simulation
from training.common.command import bound, options, run_parts

PARTS = {
    "server": server.server,
    "browser": browser.browser,
    "actions": simulation.actions,
    "reparse": simulation.reparse,
    "active": simulation.active,
    "journal": simulation.journal,
    "roundtrip": simulation.roundtrip,
}


def main() -> None:
    parser = options(__doc__, "corpora", "limit", only=PARTS)
    parser.add_argument("--requests", type=int, default=50_000, help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=1, help="of the server")
    parser.add_argument("--sentences", type=int, default=100, help="that are corrected")
    args = parser.parse_args()
    run_parts("workbench", bound(PARTS, args), args.only, is_trial=args.limit is not None)


if __name__ == "__main__":
    main()
