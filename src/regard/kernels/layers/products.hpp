// Products of some rows with a packed weight, for a search: few rows, and the same weight at every step.
//
//   y = activation(x W^T + b) + z
//
// A packed weight has panels of PANEL columns. In a panel, the numbers of an input lie side by side:
//
//   W^T     w00 w01 .. | w0P ..        panel 0    w00 w01 .. w10 w11 .. w20 w21 ..
//           w10 w11 .. | w1P ..        panel 1    w0P ..     w1P ..
//
// so a panel is read once, in order, for HEIGHT rows at a time, whose sums stay in registers. Each sum
// is taken in the order of the inputs: a row has the same result in a product of any number of rows.
#pragma once

#include <type_traits>
#include <utility>

#include "layers/gates.hpp"
#include "models/step.hpp"

namespace {

constexpr int PANEL = 2 * LANES;
constexpr int HEIGHT = LANES == 16 ? 12 : 6;  // 2 sums a row, in 32 or 16 registers

constexpr Index GROUP_BYTES = 1 << 17;  // bytes of a group of panels: a core's cache holds two groups
constexpr Index MANY_BLOCKS = 4;       // blocks of rows whose products take longer than to read the next panel

/// erf x, to 2e-7 (Abramowitz and Stegun 1964, eq. 7.1.26).
inline Vector error_function(Vector x) {
  const Vector size = absolute(x), t = 1.0f / (1.0f + 0.3275911f * size);
  Vector series = same(1.061405429f);
  series = series * t - 1.453152027f;
  series = series * t + 1.421413741f;
  series = series * t - 0.284496736f;
  series = series * t + 0.254829592f;
  const Vector value = 1.0f - series * t * power_below(-size * size);
  return x < 0.0f ? -value : value;
}

inline Vector activated(Vector x, Index activation) {
  switch (activation) {
    case RELU: return x < 0.0f ? Vector{} : x;
    case GELU: return 0.5f * x * (1.0f + error_function(x * 0.707106781f));
    case TANH: return hyperbolic_tangent(x);
    default: return x;
  }
}

/// Set all sums to zero. For an initialiser `{}`, GCC fills the array in memory by a slow instruction.
template <int rows, typename Register>
inline void clear(Register (&sums)[rows][2]) {
  for (int i = 0; i < rows; ++i) sums[i][0] = sums[i][1] = Register{};
}

/// Request the lines of the results of `rows` rows and one panel, which are written after the products.
template <int rows>
inline void request_results(const Product& p, Index row, Index column) {
  for (int i = 0; i < rows; ++i) __builtin_prefetch(p.y + (row + i) * p.weight->columns + column, 1);
}

/// `rows` rows and one panel.
template <int rows>
inline void multiply(const Product& p, const float* panel, Index row, Index column) {
  const float* x = p.x + row * p.x_step;
  Vector sums[rows][2];
  clear(sums);
  request_results<rows>(p, row, column);
  for (Index k = 0; k < p.weight->inner; ++k, panel += PANEL) {
    const Vector left = load(panel), right = load(panel + LANES);
    for (int i = 0; i < rows; ++i) {
      const Vector input = same(x[i * p.x_step + k]);
      sums[i][0] += input * left;
      sums[i][1] += input * right;
    }
  }
  const Packed& weight = *p.weight;
  for (int half = 0; half < 2; ++half) {
    const Index place = column + half * LANES;
    if (place >= weight.columns) break;
    const int count = lanes_from(place, weight.columns);
    const Vector bias = weight.bias ? load(weight.bias + place, count) : Vector{};
    for (int i = 0; i < rows; ++i) {
      const Index at = (row + i) * weight.columns + place;
      Vector y = activated(sums[i][half] + bias, p.activation);
      if (p.z) y += load(p.z + at, count);
      store(p.y + at, y, count);
    }
  }
}

/// Call `product` with the height as a constant.
template <typename Call, int... rows>
inline void with_height(Index height, const Call& product, std::integer_sequence<int, rows...>) {
  (void)((height == rows + 1 && (product(std::integral_constant<int, rows + 1>{}), true)) || ...);
}

/// Panels of a weight in memory.
template <typename Number>
struct Panels {
  const Number* start;
  Index numbers;  // of each panel
  Index bytes = numbers * Index(sizeof(Number));

  const Number* operator[](Index panel) const { return start + panel * numbers; }

  /// Request the lines of part `part` of `parts` equal parts of a panel.
  void request(Index panel, Index part, Index parts) const {
    const char* place = reinterpret_cast<const char*>((*this)[panel]);
    for (Index at = bytes * part / parts; at < bytes * (part + 1) / parts; at += LINE)
      __builtin_prefetch(place + at, 0, 2);
  }
};

/// Call `product(height, row, panel)` for blocks of rows, of nearly equal heights, and the panels from
/// `first` to before `end`. A group of panels is multiplied by all rows before the next group is. With many
/// blocks of rows, each product first requests a part of a panel of the next group, which is then in the
/// cache when its turn comes.
template <typename Number, typename Call>
inline void over_blocks(Index rows, Index first, Index end, Panels<Number> panels, const Call& product) {
  const Index blocks = (rows + HEIGHT - 1) / HEIGHT;
  const Index group = panels.bytes < GROUP_BYTES ? GROUP_BYTES / (panels.bytes + 1) : 1;
  for (Index start = first; start < end; start += group) {
    const Index stop = start + group < end ? start + group : end;
    Index row = 0;
    for (Index block = 0; block < blocks; ++block) {
      const Index count = (rows - row) / (blocks - block);
      for (Index panel = start; panel < stop; ++panel) {
        if (blocks >= MANY_BLOCKS && panel + group < end) panels.request(panel + group, block, blocks);
        with_height(
            count, [&](auto height) { product(height, row, panel); }, std::make_integer_sequence<int, HEIGHT>{});
      }
      row += count;
    }
  }
}

void multiply(const Product& p, Index first, Index end) {
  const Panels<float> panels{p.weight->panels, p.weight->inner * PANEL};
  over_blocks(p.rows, first, end, panels, [&](auto height, Index row, Index panel) {
    multiply<height.value>(p, panels[panel], row, panel * PANEL);
  });
}

/// Write the panels of a weight "columns x inner", with zeros after the last column.
void pack(const float* weight, Index columns, Index inner, float* panels) {
  for (Index first = 0; first < columns; first += PANEL)
    for (Index k = 0; k < inner; ++k)
      for (Index lane = 0; lane < PANEL; ++lane)
        *panels++ = first + lane < columns ? weight[(first + lane) * inner + k] : 0;
}

}  // namespace
