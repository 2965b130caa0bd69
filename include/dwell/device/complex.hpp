// Complex numbers, laid out as std::complex and NumPy have them.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {

// Real and imaginary part. T is float or double. Loaded and stored as one: it is aligned to its size.
template <class T>
struct alignas(2 * sizeof(T)) complex {
  T real;
  T imag;

  complex() = default;  // uninitialised, as T is
  DWELL_HOST_DEVICE complex(T re, T im = T(0)) : real(re), imag(im) {}

  DWELL_HOST_DEVICE complex& operator+=(const complex& other) { return *this = *this + other; }
  DWELL_HOST_DEVICE complex& operator-=(const complex& other) { return *this = *this - other; }
  DWELL_HOST_DEVICE complex& operator*=(const complex& other) { return *this = *this * other; }
  DWELL_HOST_DEVICE complex& operator/=(const complex& other) { return *this = *this / other; }

  friend DWELL_HOST_DEVICE complex operator-(const complex& a) { return {-a.real, -a.imag}; }
  friend DWELL_HOST_DEVICE complex operator+(const complex& a, const complex& b) { return {a.real + b.real, a.imag + b.imag}; }
  friend DWELL_HOST_DEVICE complex operator-(const complex& a, const complex& b) { return {a.real - b.real, a.imag - b.imag}; }
  // By the definition, without the rescue of infinities that C's Annex G asks for.
  friend DWELL_HOST_DEVICE complex operator*(const complex& a, const complex& b) {
    return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
  }
  // Scaled by the larger part of the divisor, so that no square overflows (R. L. Smith, Algorithm 116, CACM 1962).
  friend DWELL_HOST_DEVICE complex operator/(const complex& a, const complex& b) {
    const bool steep = (b.real < 0 ? -b.real : b.real) < (b.imag < 0 ? -b.imag : b.imag);
    const T large = steep ? b.imag : b.real;
    const T ratio = (steep ? b.real : b.imag) / large;
    const T scale = large + (steep ? b.real : b.imag) * ratio;
    return steep ? complex((a.real * ratio + a.imag) / scale, (a.imag * ratio - a.real) / scale)
                 : complex((a.real + a.imag * ratio) / scale, (a.imag - a.real * ratio) / scale);
  }
  friend DWELL_HOST_DEVICE bool operator==(const complex& a, const complex& b) { return a.real == b.real && a.imag == b.imag; }
  friend DWELL_HOST_DEVICE bool operator!=(const complex& a, const complex& b) { return !(a == b); }
};
static_assert(sizeof(complex<float>) == 8 && sizeof(complex<double>) == 16, "two numbers side by side");

template <class T>
DWELL_HOST_DEVICE complex<T> conj(const complex<T>& a) {
  return {a.real, -a.imag};
}
// The square of the absolute value.
template <class T>
DWELL_HOST_DEVICE T norm(const complex<T>& a) {
  return a.real * a.real + a.imag * a.imag;
}

}  // namespace dwell
