"""What `compare.py` counts and what it refuses; needs no package."""

import math
import re
import sys
import unittest

import compare

# Stands for PyTorch Geometric on a busy machine: slow unless its threads wait passively.
PEER = """
import json, os
spinning = os.environ.get("OMP_WAIT_POLICY") != "passive"
print("not a line")
print(json.dumps({"who": "pyg", "ms_min": 500.0 if spinning else 20.0}))
"""
OURS = 'print(\'{"who": "emmy", "ms_min": 2.0}\')'


class Turns(unittest.TestCase):
    def setUp(self):
        compare.os.environ.pop("OMP_WAIT_POLICY", None)
        self.pyg, self.emmy = [sys.executable, "-c", PEER], [sys.executable, "-c", OURS]

    def best(self, threads):
        best = compare.measure(compare.sides([self.pyg], [self.emmy], threads), 1)
        return best["pyg"]["ms_min"], best["emmy"]["ms_min"]

    def test_threads_that_spin_do_not_count_against_the_peer(self):
        self.assertEqual(self.best("4"), (20.0, 2.0))

    def test_one_thread_has_nobody_to_wait_for(self):
        self.assertEqual(self.best("1"), (500.0, 2.0))

    def test_our_side_runs_in_the_environment_as_it_is(self):
        sides = compare.sides([self.pyg], [self.emmy, ["other"]], "4")
        self.assertEqual(sides[-2:], [(self.emmy, {}), (["other"], {})])

    def test_every_form_of_the_peer_may_wait_passively(self):
        sides = compare.sides([["usual"], ["best"]], [self.emmy], "2")
        passive = [command for command, environment in sides if environment]
        self.assertEqual(passive, [["usual"], ["best"]])


class Agreement(unittest.TestCase):
    def line(self, *checks):
        measured = {"who": "emmy", "ms_min": 2.0, "ms_median": 3.0, "floor_ms": 0.5, "mb": 8.2}
        return {**measured, "checks": [list(check) for check in checks]}

    def difference(self, a, b):
        return compare.difference(self.line(*a), self.line(*b))

    def test_a_difference_is_relative_to_the_norm_of_its_result(self):
        # The inner product may be near zero: the norm says how exact it can be.
        self.assertAlmostEqual(self.difference([(10.0, 0.001)], [(10.0, 0.002)]), 1e-4)
        self.assertAlmostEqual(self.difference([(10.0, 5.0)], [(9.0, 5.0)]), 0.1)

    def test_the_largest_difference_counts_in_any_place(self):
        same = (1.0, 0.5)
        for k in range(3):
            other = [same] * 3
            other[k] = (1.0, 0.25)
            self.assertAlmostEqual(self.difference([same] * 3, other), 0.25)

    def test_results_that_cannot_be_compared_do_not_agree(self):
        fine, nan = (1.0, 0.5), math.nan
        for a, b in [
            ([fine], [fine, fine]),
            ([], []),
            ([(0.0, 0.0)], [(0.0, 0.0)]),
            ([(nan, nan)], [(nan, nan)]),
            ([fine], [(1.0, nan)]),
            ([(math.inf, 0.5)], [(math.inf, 0.5)]),
        ]:
            self.assertEqual(self.difference(a, b), math.inf, (a, b))
            self.assertEqual(self.difference(b, a), math.inf, (b, a))

    def test_a_row_whose_sides_differ_ends_the_program(self):
        peer = self.line((1.0, 0.5))
        with self.assertRaises(SystemExit) as ended:
            compare.dense_line({"pytorch": peer, "emmy": self.line((1.0, 0.501))})
        self.assertIn("differ by 1.0e-03", str(ended.exception))
        same = {"pytorch": peer, "emmy": peer}
        self.assertIn("| 1.00 | 0.50 | 25 % | 8 | 8 | 0e+00", compare.dense_line(same))
        unknown = {**peer, "mb": None}
        self.assertIn("| unknown | 8 |", compare.dense_line({"pytorch": unknown, "emmy": peer}))

    def test_another_framework_is_held_against_both_sides(self):
        one, other = self.line((1.0, 0.5)), self.line((1.0, 0.501))
        same = {"candle": one, "pytorch": one, "emmy": one}
        for side in same:
            with self.assertRaises(SystemExit):
                compare.other_line("candle", {**same, side: other})
        self.assertIn("| 1.00 | 8 | 0e+00", compare.other_line("candle", same))
        del same["candle"]
        self.assertEqual(compare.other_line("candle", same).count("|") + 1, len(compare.other_columns("candle")))


    def test_only_burns_adam_may_differ_by_more(self):
        one, other = self.line((1.0, 0.5)), self.line((1.0, 0.5005))
        row = {"row": "mlp-784-512-512-10"}
        self.assertAlmostEqual(compare.agreeing({**other, **row, "who": "burn"}, one), 5e-4)
        for who, row in [("candle", row), ("burn", {"row": "chain-999"})]:
            with self.assertRaises(SystemExit):
                compare.agreeing({**other, **row, "who": who}, one)


class Rows(unittest.TestCase):
    def names(self, file):
        """The names of rows in a source: strings with a hyphen that begin an item of a list."""
        return re.findall(r'\(\s*"([a-z0-9]+(?:-[a-z0-9]+)+)",', (compare.HERE / file).read_text())

    def test_both_sides_have_the_rows_of_the_table(self):
        for name, ours in [("graphs", "emmy.rs"), ("dense", "dense.rs")]:
            chosen = compare.SETS[name]
            theirs = self.names(chosen.script)
            self.assertEqual([row for row, _ in chosen.rows], theirs)
            self.assertEqual(list(dict.fromkeys(row for _, row in chosen.rows)), self.names(ours))

    def test_the_rows_of_other_frameworks_are_rows_of_the_table(self):
        for name, rows in compare.OTHERS.items():
            self.assertEqual(set(self.names(f"{name}/src/main.rs")), rows)
            self.assertLessEqual(rows, {row for row, _ in compare.SETS["dense"].rows})

    def test_a_line_fills_its_columns(self):
        line = {"ms_min": 2.0, "ms_median": 3.0, "floor_ms": 1.0, "mb": 1.0, "checks": [[1.0, 0.5]]}
        line.update(who="emmy", row="gcn", first_loss=1.9)
        best = dict.fromkeys(["pytorch", "emmy", *(f"pyg-{form}" for form in compare.FORMS)], line)
        for chosen in compare.SETS.values():
            self.assertEqual(len(chosen.line(best).split("|")), len(chosen.columns))

    def forms(self, row, **changes):
        """A line per form of the peer, and ours; `changes` are those of the form `best`."""
        line = {"row": row, "ms_min": 20.0, "first_loss": 1.9, "floor_ms": 1.0}
        return {**{f"pyg-{form}": line for form in compare.FORMS}, "pyg-best": {**line, **changes}, "emmy": line}

    def test_the_strongest_form_is_the_opponent(self):
        for form in compare.FORMS:
            best = self.forms("gcn")
            best[f"pyg-{form}"] = {**best["emmy"], "ms_min": 10.0}
            self.assertEqual(compare.graph_line(best).split(" | ")[5], "0.5")

    def test_all_forms_are_one_network(self):
        with self.assertRaises(SystemExit):
            compare.graph_line(self.forms("gcn", first_loss=1.8))
        # Masks of dropout differ.
        compare.graph_line(self.forms("gcn-dropout", first_loss=1.8))


if __name__ == "__main__":
    unittest.main()
