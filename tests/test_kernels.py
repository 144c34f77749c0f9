"""The library of kernels: which one is taken, and what is said where there is none."""

import ctypes

import pytest

from regard import kernels


@pytest.mark.skipif(not kernels.available(), reason="the kernels were not compiled")
@pytest.mark.parametrize(("name", "size"), [("Strided", 32), ("Strided", 40), ("Unknown", 32)])
def test_a_library_with_other_structures_is_not_used(monkeypatch, name, size):
    monkeypatch.setattr(kernels, "_LIBRARY", kernels._LIBRARY)  # to be put back

    @kernels.structure(name)
    class Own(ctypes.Structure):
        _fields_ = (("bytes", ctypes.c_char * size),)

    assert ctypes.sizeof(Own) == size
    assert kernels.available() == ((name, size) == ("Strided", 32))
