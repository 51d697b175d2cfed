"""The checks of the doctor: one module each, with a function that yields verdicts on a subject.

Needs the rest of `doctor`; `constrained/inspect/doctor/examine` lists them.
"""
