"""How the doctor's page looks: light and dark, on a screen and on paper."""

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #fff; --text: #1c2127; --soft: #5c6670; --edge: #dfe3e8;
  --sound: #1a7f4b; --odd: #946200; --damaged: #c22f2f; --unreadable: #7a3fb0;
  --sound-bg: #e3f5ea; --odd-bg: #fdf2d6; --damaged-bg: #fde6e4; --unreadable-bg: #f0e6fa;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --card: #1d2126; --text: #e6e9ec; --soft: #9aa4ae; --edge: #333a42;
    --sound: #59c98b; --odd: #e2b04a; --damaged: #f2827b; --unreadable: #c79af0;
    --sound-bg: #163324; --odd-bg: #3a2e10; --damaged-bg: #421f1e; --unreadable-bg: #30213f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 66rem;
  background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; letter-spacing: -.015em; }
h2 { margin: 0; font-size: 1.05rem; overflow-wrap: anywhere; }
h3 { margin: 0; font-size: 1rem; }
p { margin: 0; }
a { color: inherit; text-decoration-color: var(--edge); text-underline-offset: .2em; }
code, .mono { font-family: ui-monospace, "SF Mono", Consolas, monospace; font-size: .85em; }
.soft { color: var(--soft); }
.kicker { color: var(--soft); font-size: .85rem; margin-bottom: .35rem; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: .75rem; margin: 1.5rem 0; }
.tile { padding: .8rem 1rem; border-radius: .7rem; border: 1px solid var(--edge);
  background: var(--card); color: var(--soft); font-size: .85rem; }
.tile b { display: block; font-size: 1.7rem; line-height: 1.2; font-weight: 650; }
.tile.sound.some b { color: var(--sound); } .tile.odd.some b { color: var(--odd); }
.tile.damaged.some b { color: var(--damaged); }
.tile.unreadable.some b { color: var(--unreadable); }
.card { background: var(--card); border: 1px solid var(--edge); border-radius: .8rem;
  margin: 1rem 0; overflow: hidden; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th { text-align: left; font-weight: 550; color: var(--soft); white-space: nowrap; }
th, td { padding: .45rem .75rem; border-top: 1px solid var(--edge); vertical-align: top; }
thead th { border-top: 0; }
td { overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap;
  width: 1%; }
td:has(> .pill) { white-space: nowrap; }
.pill { display: inline-block; padding: .05rem .6rem; border-radius: 1rem; font-size: .78rem;
  font-weight: 600; white-space: nowrap; }
.pill.sound { color: var(--sound); background: var(--sound-bg); }
.pill.odd { color: var(--odd); background: var(--odd-bg); }
.pill.damaged { color: var(--damaged); background: var(--damaged-bg); }
.pill.unreadable { color: var(--unreadable); background: var(--unreadable-bg); }
.log { margin-top: 2rem; scroll-margin-top: 1rem; }
.log > header { display: flex; gap: .8rem; align-items: baseline; padding: 1rem 1.1rem .2rem; }
.log > p { padding: 0 1.1rem .9rem; }
.group { border-top: 1px solid var(--edge); border-left: .3rem solid var(--edge); }
.group.error { border-left-color: var(--damaged); }
.group.warning { border-left-color: var(--odd); }
.group > .text { padding: .8rem .75rem .5rem; }
.found td:last-child { width: 60%; }
.overview td:nth-child(2) { min-width: 13rem; } .overview td:nth-child(3) { min-width: 9rem; }
.found td:nth-child(4) { min-width: 11rem; }
.group h3 code { color: var(--soft); margin-left: .5rem; font-weight: 400; }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .85rem; }
@media (max-width: 40rem) {
  .tiles { grid-template-columns: repeat(2, 1fr); }
  .log > header { flex-direction: column; gap: .3rem; }
}
@media print {
  :root { color-scheme: light; --page: #fff; --card: #fff; --text: #000; --soft: #444;
    --edge: #bbb; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  .pill { border: 1px solid; background: none !important; }
  .log > header, .group > .text, tr { break-inside: avoid; }
  .log > header, .group > .text { break-after: avoid; }
  a { text-decoration: none; }
}
"""
