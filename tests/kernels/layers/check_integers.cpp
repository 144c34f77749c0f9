// Products with weights of int8 numbers, against loops over integers and their bounds in double precision.
#include <algorithm>
#include <cfloat>

#include "packed_linear.hpp"

namespace {

/// A linear layer whose weight is quantised.
struct QuantisedLinear {
  Index columns, inner;
  std::vector<int> weight;  // of each column, its integers
  std::vector<float> scales, totals, bias;
  std::vector<std::int8_t> integers;  // in panels
  Packed packed;

  QuantisedLinear(Index columns, Index inner, bool has_bias, Random& random)
      : columns(columns), inner(inner), weight(columns * inner), scales(columns), totals(columns),
        bias(drawn<float>(random, has_bias ? columns : 0)) {
    std::uniform_int_distribution<int> integer(-127, 127);
    std::uniform_real_distribution<float> scale(0.001f, 0.01f);
    for (int& w : weight) w = integer(random);
    for (Index j = 0; j < columns; ++j) {
      scales[j] = scale(random);
      int sum = 0;
      for (Index k = 0; k < inner; ++k) sum += weight[j * inner + k];
      totals[j] = float(sum) * scales[j];
    }
    lay_out();
  }
  QuantisedLinear(const QuantisedLinear&) = delete;

  void lay_out() {
    const Index lanes = regard_lanes(0), panel = 2 * lanes, groups = (inner + 3) / 4;
    integers.assign((columns + panel - 1) / panel * panel * groups * 4, 0);
    for (Index j = 0; j < columns; ++j)
      for (Index k = 0; k < inner; ++k)
        integers[((j / panel * groups + k / 4) * panel + j % panel) * 4 + k % 4] = std::int8_t(weight[j * inner + k]);
    packed = {nullptr, integers.data(), bias.empty() ? nullptr : bias.data(), scales.data(), totals.data(), columns,
              inner, lanes, {0, bytes(integers), bytes(bias), bytes(scales), bytes(totals)}};
  }
};

/// The nearest integers to (x - m) / s, with the numbers of one kernel: s = (largest - m) / LARGEST_INTEGER.
std::vector<float> expected_row(const QuantisedLinear& linear, const float* x) {
  const Index inner = linear.inner;
  const float low = inner ? *std::min_element(x, x + inner) : 0, high = inner ? *std::max_element(x, x + inner) : 0;
  const float scale = (high - low) / LARGEST_INTEGER, inverse = scale >= FLT_MIN ? 1 / scale : 0;
  std::vector<float> y(linear.columns);
  for (Index j = 0; j < linear.columns; ++j) {
    std::int64_t sum = 0;
    for (Index k = 0; k < inner; ++k) {
      const volatile float above = x[k] - low, level = above * inverse;
      sum += std::min(long(LARGEST_INTEGER), std::lrint(level)) * linear.weight[j * inner + k];
    }
    const volatile float factor = scale * linear.scales[j], first = float(sum) * factor;
    const volatile float second = low * linear.totals[j], both = first + second;
    const float bias = linear.bias.empty() ? 0 : linear.bias[j];
    y[j] = both + bias;
  }
  return y;
}

/// Bound of the error of quantising a row: half a step of every input, and roundings.
void compare_with_exact(const QuantisedLinear& linear, const float* x, const float* y) {
  const Index inner = linear.inner;
  if (inner == 0) return;
  const double step = (double(*std::max_element(x, x + inner)) - *std::min_element(x, x + inner)) / LARGEST_INTEGER;
  for (Index j = 0; j < linear.columns; ++j) {
    double exact = linear.bias.empty() ? 0 : linear.bias[j], size = std::fabs(exact), weights = 0;
    for (Index k = 0; k < inner; ++k) {
      const double w = double(linear.weight[j * inner + k]) * linear.scales[j];
      exact += w * x[k];
      size += std::fabs(w) * (std::fabs(x[k]) + LARGEST_INTEGER * step);
      weights += std::fabs(w);
    }
    must(std::fabs(y[j] - exact) <= 0.5001 * step * weights + 1e-6 * size, "a product is too far from the exact one");
  }
}

struct Case {
  Index rows, columns, inner;
  bool has_bias, adds;
  Index apart = 0;  // numbers between two rows of the input, which nothing may read
  bool often = true;
};

Product product_of(const QuantisedLinear& linear, const std::vector<float>& x, std::vector<float>& y, Index rows,
                   Index threads) {
  return {&linear.packed, x.data(), y.data(), nullptr, rows, linear.inner, NONE, threads, {bytes(x), bytes(y), 0}};
}

void check(const Case& c, Random& random) {
  const QuantisedLinear linear(c.columns, c.inner, c.has_bias, random);
  const Index x_step = c.inner + c.apart;
  std::vector<float> x = unknown<float>(c.rows > 0 ? c.rows * x_step - c.apart : 0);
  const std::vector<float> inputs = drawn<float>(random, c.rows * c.inner);
  for (Index i = 0; i < c.rows; ++i) std::copy_n(inputs.begin() + i * c.inner, c.inner, x.begin() + i * x_step);
  const std::vector<float> added = drawn<float>(random, c.rows * c.columns);
  std::vector<float> y = unknown<float>(c.rows * c.columns);
  Product product = product_of(linear, x, y, c.rows, THREADS);
  product.x_step = x_step;
  if (c.adds) product.z = added.data(), product.bytes[2] = bytes(added);
  must_run(regard_multiply(&product));
  for (Index i = 0; i < c.rows; ++i) {
    std::vector<float> right = expected_row(linear, inputs.data() + i * c.inner);
    if (!c.adds) compare_with_exact(linear, inputs.data() + i * c.inner, y.data() + i * c.columns);
    if (c.adds)
      for (Index j = 0; j < c.columns; ++j) right[j] += added[i * c.columns + j];
    must(are_equal(right.data(), y.data() + i * c.columns, c.columns), "a product of integers is not exact");
  }
  for (Index activation : {RELU, GELU}) {
    const std::vector<float> before = y;
    product.activation = activation;
    must_run(regard_multiply(&product));
    if (c.adds) continue;
    std::vector<double> right;
    for (float number : before) right.push_back(activated(number, activation));
    compare("activations", y, right, 2e-6);
    product.activation = NONE;
    must_run(regard_multiply(&product));
  }
  if (!c.often || c.rows < 2 || c.columns == 0 || c.inner == 0) return;

  product.activation = NONE;
  const auto run = [](const Product& wrong) { return regard_multiply(&wrong); };
  must_refuse_wrong(product, {&Product::rows, &Product::x_step}, run);
  const auto run_weight = [&](const Packed& weight) {
    if (weight.inner == c.inner + 1 && (weight.inner + 3) / 4 == (c.inner + 3) / 4 && c.apart) return WRONG_SIZES;
    Product wrong = product;
    wrong.weight = &weight;
    return run(wrong);
  };
  must_refuse_wrong(linear.packed, {&Packed::columns, &Packed::inner, &Packed::lanes}, run_weight);
  for (const float* Packed::*array : {&Packed::scales, &Packed::totals}) {
    Packed wrong = linear.packed;
    wrong.*array = nullptr;
    must_refuse(run_weight(wrong));
  }
  Packed both = linear.packed;
  both.panels = linear.scales.data();
  must_refuse(run_weight(both));
  std::vector<float> plain(c.columns * c.inner);
  must_refuse(regard_pack(plain.data(), bytes(plain), &linear.packed));
}

/// Rows that are constant, tiny, huge or not finite, alone among others.
void check_unusual_rows(Random& random) {
  constexpr Index inner = 19, columns = 37, rows = 11;
  QuantisedLinear linear(columns, inner, true, random);
  linear.scales[5] = linear.totals[5] = NAN;
  linear.scales[6] = linear.totals[6] = 0;
  std::vector<float> x = drawn<float>(random, rows * inner), y = unknown<float>(rows * columns);
  const auto fill = [&](Index row, float number) { std::fill_n(x.begin() + row * inner, inner, number); };
  fill(0, 0);
  fill(1, -3);
  fill(2, FLT_TRUE_MIN);
  x[3 * inner + 18] = NAN;
  x[4 * inner + 1] = INFINITY;
  x[5 * inner] = -INFINITY;
  fill(6, NAN);
  x[7 * inner + 2] = 3e38f;
  x[7 * inner + 3] = -3e38f;  // their distance is not a float
  x[8 * inner] = 1e30f;
  fill(9, 3e38f);
  const Product product = product_of(linear, x, y, rows, 1);
  must_run(regard_multiply(&product));
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) {
      const float number = y[i * columns + j];
      const bool is_lost = (i >= 3 && i <= 7) || j == 5;
      must(std::isnan(number) == is_lost, "NaN in other rows or columns, or lost");
      if (is_lost) continue;
      if (j == 6 || i == 0) must(number == linear.bias[j], "a product with zeros is not the bias");
      if (i == 1) must(number == -3 * linear.totals[j] + linear.bias[j], "a constant row is not exact");
    }
}

/// As many inputs as a sum may have, all of them the largest, with the largest or least weights; and one more.
void check_longest(int weight, Random& random) {
  QuantisedLinear linear(1, MOST_INTEGERS, false, random);
  std::fill(linear.weight.begin(), linear.weight.end(), weight);
  linear.scales[0] = 1;
  linear.totals[0] = float(weight * MOST_INTEGERS);
  linear.lay_out();
  std::vector<float> x(MOST_INTEGERS, LARGEST_INTEGER), y(1);
  x[0] = 0;
  const Product product = product_of(linear, x, y, 1, 1);
  must_run(regard_multiply(&product));
  must(y[0] == float(127.0 * weight * (MOST_INTEGERS - 1)), "a long sum of integers is not exact");
  const QuantisedLinear longer(1, MOST_INTEGERS + 1, false, random);
  x.push_back(LARGEST_INTEGER);
  const Product wrong = product_of(longer, x, y, 1, 1);
  must_refuse(regard_multiply(&wrong));
}

}  // namespace

int check_integers(Random& random) {
  std::vector<Case> cases;
  for (Index rows = 0; rows <= 30; ++rows) cases.push_back({rows, 37, 17, true, rows % 2 == 0});
  for (Index columns : ODD_SIZES)
    for (Index inner : ODD_SIZES) {
      cases.push_back({3, columns, inner, false, true});
      cases.push_back({13, columns, inner, true, false, 3});
    }
  for (Index rows : {0, 3})
    for (Index columns : {0, 5})
      for (Index inner : {0, 7}) cases.push_back({rows, columns, inner, true, true});
  for (Index rows : {29, 30}) cases.push_back({rows, 331, 127, true, rows == 30, 0, false});  // for threads
  int count = 0;
  for (int wanted : {0, 1}) {  // without and with instructions for dot products of bytes
    if (regard_byte_products(wanted) != wanted) continue;
    for (const Case& each : cases) check(each, random);
    check_unusual_rows(random);
    for (int weight : {-127, 127}) check_longest(weight, random);
    count += int(cases.size()) + 3;
    if (regard_lanes(0) != 16) break;
  }
  regard_byte_products(1);
  return count;
}
