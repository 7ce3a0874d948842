"""What a fault of the cluster explains of a push that came twice, and what it doesn't: python3 -m e2e.trust.test_cluster_faults"""
import unittest
from types import SimpleNamespace

from e2e import harness
from e2e.trust.cluster_world import ARRIVES_SECONDS, ClusterJudge, Fault
from e2e.trust.push_judge import Evidence, plain_effect

KEY = "token", "notification"
UNANSWERED = '[{"outcome":"unanswered"}]'


def sent(*times):
    return [SimpleNamespace(at=at) for at in times]


class WhatAFaultExplains(unittest.TestCase):
    def setUp(self):
        self.fault = Fault("a node was killed", began=100, in_flight={KEY}, struck=101)
        self.deaf = Fault("no answer arrives", began=100, struck=101, is_deaf=True, healed=120)

    def test_a_second_copy_of_what_was_in_flight(self):
        self.assertTrue(self.fault.explains(KEY, sent(99), ""))
        self.assertFalse(self.fault.explains(("token", "another"), sent(99), ""))

    def test_nothing_that_was_sent_after_it_was_done(self):
        self.assertFalse(self.fault.explains(KEY, sent(101 + ARRIVES_SECONDS + 0.1), UNANSWERED))

    def test_no_copy_after_one_that_was_sent_when_it_was_done(self):
        self.assertFalse(self.fault.explains(KEY, sent(99, 130), ""))

    def test_one_copy_and_not_two(self):
        copies = [SimpleNamespace(at=at, token=KEY[0], notification=KEY[1], status=200, connection=1, fault=None) for at in (99, 99.5, 110)]
        report = harness.Report()
        judge = ClusterJudge(Evidence(copies, [], {}, [], set(), {}, {}, {}, plain_effect), report, [self.fault], set())
        judge._told = lambda _: "thrice"
        judge.repeated(KEY, copies[1:])
        self.assertEqual(report.wrong, [])
        judge.repeated(KEY, copies)
        self.assertEqual([kind for kind, _ in report.wrong], ["duplicate"])

    def test_a_second_copy_of_what_was_sent_while_no_answer_arrived(self):
        self.assertTrue(self.deaf.explains(KEY, sent(119), UNANSWERED))
        self.assertFalse(self.deaf.explains(KEY, sent(121), UNANSWERED))
        self.assertFalse(self.deaf.explains(KEY, sent(99), UNANSWERED))

    def test_no_copy_whose_answer_was_heard(self):
        self.assertFalse(self.deaf.explains(KEY, sent(119), '[{"outcome":"accepted"}]'))
        self.assertFalse(self.deaf.explains(KEY, sent(110, 119), UNANSWERED))


if __name__ == "__main__":
    unittest.main()
