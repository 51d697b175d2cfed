"""The checks of the doctor: a module each, with a function that gives the verdicts on a subject.

Needs the rest of `doctor`; `constrained/doctor/examine` lists them.
"""
