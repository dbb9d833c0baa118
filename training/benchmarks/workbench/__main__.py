"""The workbench: its server under load and under attack.

    python -m training.benchmarks.workbench --only server

Each part is a module of this folder, whose docstring says what its figures are.
"""

from __future__ import annotations

from training.benchmarks.workbench import server
from training.common.command import bound, options, run_parts

PARTS = {"server": server.server}


def main() -> None:
    parser = options(__doc__, "limit", only=PARTS)
    parser.add_argument("--requests", type=int, default=50_000, help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=1, help="of the server")
    args = parser.parse_args()
    run_parts("workbench", bound(PARTS, args), args.only, is_trial=args.limit is not None)


if __name__ == "__main__":
    main()
