/* Divides two columns and looks at each quotient while the next is divided, which costs nothing.
 *
 * numpy's division is one pass and every look at its result another, a third of the division's time
 * each. Python works the same without this module, only slower: docs/decisions/0066.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* The widest instructions that the processor at hand has, chosen when the module is loaded. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && __GNUC__ >= 12
#define BY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BY_PROCESSOR
#endif

enum { NOT_FINITE = 1, ZERO = 2 };

BY_PROCESSOR
static int divide_rows(const double *above, const double *below, double *out, Py_ssize_t rows)
{
    uint64_t not_finite = 0, zero = 0, bits;
    /* `out` may be `above`: each row is read before it is written. */
#pragma GCC ivdep
    for (Py_ssize_t row = 0; row < rows; row++) {
        double quotient = above[row] / below[row];
        out[row] = quotient;
        double gap = quotient - quotient; /* 0 has no bit set, NaN has: of NaN and of infinity */
        memcpy(&bits, &gap, sizeof bits);
        not_finite |= bits;
        zero |= quotient == 0.0;
    }
    return (not_finite ? NOT_FINITE : 0) | (zero ? ZERO : 0);
}

static PyObject *divide(PyObject *module, PyObject *arguments)
{
    Py_buffer above, below, out;
    PyObject *answer = NULL;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*w*:divide", &above, &below, &out))
        return NULL;
    uintptr_t addresses = (uintptr_t)above.buf | (uintptr_t)below.buf | (uintptr_t)out.buf;
    if (above.len != out.len || below.len != out.len || (addresses | out.len) % sizeof(double)) {
        PyErr_SetString(PyExc_ValueError, "columns of floats, equally long and aligned, are needed");
    } else {
        int found;
        Py_BEGIN_ALLOW_THREADS
        found = divide_rows(above.buf, below.buf, out.buf, out.len / (Py_ssize_t)sizeof(double));
        Py_END_ALLOW_THREADS
        answer = PyLong_FromLong(found);
    }
    PyBuffer_Release(&above);
    PyBuffer_Release(&below);
    PyBuffer_Release(&out);
    return answer;
}

static PyMethodDef methods[] = {
    {"divide", divide, METH_VARARGS, "Writes above / below to out; 1 if any is not finite, plus 2 if any is 0."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_quotients", .m_size = 0, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__quotients(void)
{
    return PyModuleDef_Init(&definition);
}
