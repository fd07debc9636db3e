"""Section 7, measured: how equivariant a model is, what its bias costs, what no rotation exceeds, where it is lost."""

from vnt.equivariance.audit import audit
from vnt.equivariance.bounds import bias_worst_case, compose, lipschitz, paper_bias_bound, steep_pair
from vnt.equivariance.certificate import Certificate, certify
from vnt.equivariance.first_order import FirstOrderLaw, first_order_law
from vnt.equivariance.report import AuditReport
from vnt.equivariance.subject import Subject, describe_subject
from vnt.equivariance.sweep import SweepPoint, sweep
from vnt.equivariance.tracing import Step, trace
from vnt.equivariance.verdicts import Verdict
from vnt.equivariance.violation import Violation, measure, violation

__all__ = [
    "AuditReport",
    "Certificate",
    "FirstOrderLaw",
    "Step",
    "Subject",
    "SweepPoint",
    "Verdict",
    "Violation",
    "audit",
    "bias_worst_case",
    "certify",
    "compose",
    "describe_subject",
    "first_order_law",
    "lipschitz",
    "measure",
    "paper_bias_bound",
    "steep_pair",
    "sweep",
    "trace",
    "violation",
]
