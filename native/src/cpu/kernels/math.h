// Transcendental functions that a compiler can vectorise. In double the library's, since only tests compute in it.
#pragma once

#include <cmath>

#include "cpu/kernels/isa.h"

namespace whatfits::native::WHATFITS_ISA {

/// e^x to 2 ulp; 0 below -87.3, for which softmax has no use. Cephes' polynomial.
inline float exponential(float x) {
  const float clamped = x < -87.3F ? -87.3F : x > 88.3F ? 88.3F : x;
  const float shifted = clamped * 1.44269504F + 12582912.0F;  // 1.5 * 2^23: rounds to a whole number, which its low bits hold
  const float n = shifted - 12582912.0F;
  float r = clamped - n * 0.693359375F;
  r += n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float y = p * (r * r) + r + 1.0F;
  const std::int32_t power = __builtin_bit_cast(std::int32_t, shifted) - 0x4B400000;
  const float scaled = y * __builtin_bit_cast(float, (power + 127) << 23);
  return x < -87.3F ? 0.0F : scaled;
}
inline double exponential(double x) { return __builtin_exp(x); }

/// The error function to 3e-7 of 1 (a rational approximation with the coefficients that Eigen and XLA use).
inline float error_function(float x) {
  x = x < -4.0F ? -4.0F : x > 4.0F ? 4.0F : x;
  const float s = x * x;
  float p = -2.72614225801306e-10F;
  p = p * s + 2.77068142495902e-08F;
  p = p * s - 2.10102402082508e-06F;
  p = p * s - 5.69250639462346e-05F;
  p = p * s - 7.34990630326855e-04F;
  p = p * s - 2.95459980854025e-03F;
  p = p * s - 1.60960333262415e-02F;
  float q = -1.45660718464996e-05F;
  q = q * s - 2.13374055278905e-04F;
  q = q * s - 1.68282697438203e-03F;
  q = q * s - 7.37332916720468e-03F;
  q = q * s - 1.42647390514189e-02F;
  return x * p / q;
}
inline double error_function(double x) { return __builtin_erf(x); }

template <class A>
inline constexpr A kRootHalf = static_cast<A>(0.70710678118654752440);
template <class A>
inline constexpr A kInverseRoot2Pi = static_cast<A>(0.39894228040143267794);

}  // namespace whatfits::native::WHATFITS_ISA
