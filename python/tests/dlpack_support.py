"""Shared by the tests of DLPack: its structures, and a producer."""

import ctypes


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
ctypes.pythonapi.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]


def held_by(capsule):
    """Returns the Managed or ManagedVersioned in a capsule. The capsule owns it."""
    for kind, name in ((Managed, b"dltensor"), (ManagedVersioned, b"dltensor_versioned")):
        if ctypes.pythonapi.PyCapsule_IsValid(capsule, name):
            return kind.from_address(ctypes.pythonapi.PyCapsule_GetPointer(capsule, name))
    raise TypeError(f"{capsule} holds no tensor, or has been used")


lent = []  # contents of capsules, kept forever


class Producer:
    """Shares an array of NumPy or PyTorch by DLPack alone, with the given fields."""

    def __init__(self, memory, *, version=(1, 1), device=(1, 0), code=2, bits=32, flags=0, shape=None, strides=None, offset=0):
        self.memory, self.version, self.device, self.flags = memory, version, device, flags
        self.type, self.offset = (code, bits), offset
        shape = memory.shape if shape is None else shape
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self.ndim = len(shape)
        self.asked = []
        self.deleted = 0

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **how):
        self.asked.append(how)
        if self.version is None and "max_version" in how:
            raise TypeError("unexpected keyword argument 'max_version'")
        address = self.memory.data_ptr() if hasattr(self.memory, "data_ptr") else self.memory.ctypes.data
        tensor = Tensor(address, Device(*self.device), self.ndim, *self.type, 1, self.shape, self.strides, self.offset)

        def delete(_):
            self.deleted += 1

        deleter = Deleter(delete)
        if self.version is None:
            managed, name = Managed(tensor, None, deleter), b"dltensor"
        else:
            managed, name = ManagedVersioned(*self.version, None, deleter, self.flags, tensor), b"dltensor_versioned"
        lent.extend([self, managed, deleter])
        return ctypes.pythonapi.PyCapsule_New(ctypes.addressof(managed), name, None)
