"""What `compare.py` counts; needs no package."""

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


class Compare(unittest.TestCase):
    def setUp(self):
        compare.os.environ.pop("OMP_WAIT_POLICY", None)
        self.pyg, self.emmy = [sys.executable, "-c", PEER], [sys.executable, "-c", OURS]

    def best(self, threads):
        best = compare.measure(compare.sides(self.pyg, self.emmy, threads), [], 1)
        return best["pyg"]["ms_min"], best["emmy"]["ms_min"]

    def test_threads_that_spin_do_not_count_against_the_peer(self):
        self.assertEqual(self.best("4"), (20.0, 2.0))

    def test_one_thread_has_nobody_to_wait_for(self):
        self.assertEqual(self.best("1"), (500.0, 2.0))

    def test_our_side_runs_in_the_environment_as_it_is(self):
        self.assertEqual(compare.sides(self.pyg, self.emmy, "4")[-1], (self.emmy, {}))


if __name__ == "__main__":
    unittest.main()
