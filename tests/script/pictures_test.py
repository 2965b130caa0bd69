#!/usr/bin/env python3
"""Tests of script/pictures: what a terminal shows, and which operator a stripe of a timeline tells of.

tests/script/pictures_test.py [ARGUMENT OF unittest...]
"""

import importlib.machinery
import importlib.util
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPT = Path(__file__).resolve().parents[2] / "script/pictures"
loader = importlib.machinery.SourceFileLoader("pictures", str(SCRIPT))
spec = importlib.util.spec_from_loader("pictures", loader)
assert spec
pictures = importlib.util.module_from_spec(spec)
loader.exec_module(pictures)


class Pictures(unittest.TestCase):
    def test_a_screen_shows_what_was_drawn_last(self):
        screen = pictures.Screen(8, 3)
        screen.take("\x1b[?1049h\x1b[Hold line\r\nold\r\nold")
        screen.take("\x1b[Hnew\x1b[K\r\n\x1b[1;31mµ\x1b")
        screen.take("[0m!\x1b[K\x1b[J")
        self.assertEqual(screen.text(), "new\nµ!\n")
        self.assertEqual(screen.cells[1][0], ("µ", pictures.Look(foreground=31, bold=True)))
        self.assertEqual(screen.cells[1][1], ("!", pictures.Look()))

    def test_a_line_ends_at_the_edge(self):
        screen = pictures.Screen(4, 2)
        screen.take("abcdef\r\ng")
        self.assertEqual(screen.text(), "abcd\ng")

    def test_a_stripe_tells_of_what_took_most_of_it(self):
        slices = [pictures.Slice(1, 0, 10, "a"), pictures.Slice(1, 10, 0.1, "b"), pictures.Slice(1, 10.1, 0.4, "c")]
        # A pixel a microsecond: half pixels hold half a microsecond.
        self.assertEqual(pictures.stripes_of(slices, 0, 1.0), [(0, 10, "a"), (10, 0.5, "c")])
        # What is short and alone still shows.
        self.assertEqual(pictures.stripes_of(slices[1:2], 0, 1.0), [(10, 0.5, "b")])

    def test_ticks_are_few_and_round(self):
        self.assertEqual([pictures.step_of(length) for length in (9, 23, 600, 23000)], [1, 5, 100, 5000])

    def test_pages_have_the_share_of_their_slab(self):
        page = 65536
        slabs = [[2 * page, page, 32, 2032, 1016], [4 * page, 2 * page, 0, 1, 1]]
        pages = pictures.pages_of(slabs, page, 1, 7)
        self.assertEqual(pages[0], None)
        self.assertAlmostEqual(pages[1], 1016 * 32 / page)
        self.assertEqual(pages[2:], [None, 1.0, 1.0, None])
        colors = [pictures.color_of(share) for share in (0, 0.19, 0.2, 1)]
        self.assertEqual(colors, [pictures.STEPS_OF_SHARE[i] for i in (0, 0, 1, 4)])


if __name__ == "__main__":
    sys.exit(unittest.main())
