"""Products of vectors and matrices of doubles, and exponentials; see `doubles.h`."""


cdef extern from "doubles.h" nogil:
    void matvec(double *out, const double *m, const double *x, int rows, int n, int add) noexcept
    void add_to(double *out, const double *x, double factor, int n) noexcept
    void vecmat(double *out, const double *m, const double *w, int rows, int n) noexcept
    void add_outer(double *m, const double *w, const double *x, int rows, int n) noexcept
    void exponentials(double *x, int n) noexcept
    void sigmoids(double *mu, const double *phi, int n) noexcept
