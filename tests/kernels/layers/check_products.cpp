// Products with packed weights, against loops in double precision.
#include <algorithm>

#include "packed_linear.hpp"

namespace {

struct Case {
  Index rows, columns, inner, activation;
  bool has_bias, adds, in_place;  // in place: the sum is written over the added numbers
  Index apart = 0;                // numbers between two rows of the input, which nothing may read
};

void check(const Case& c, Random& random) {
  const PackedLinear linear(c.columns, c.inner, c.has_bias, random);
  const Index x_step = c.inner + c.apart;
  std::vector<float> x = unknown<float>(c.rows > 0 ? c.rows * x_step - c.apart : 0);
  const std::vector<float> inputs = drawn<float>(random, c.rows * c.inner);
  for (Index i = 0; i < c.rows; ++i)
    std::copy_n(inputs.begin() + i * c.inner, c.inner, x.begin() + i * x_step);
  const std::vector<float> added = drawn<float>(random, c.rows * c.columns);
  std::vector<float> y = c.in_place ? added : unknown<float>(c.rows * c.columns);
  const Product product{&linear.packed,
                        x.data(),
                        y.data(),
                        !c.adds ? nullptr : c.in_place ? y.data() : added.data(),
                        c.rows,
                        x_step,
                        c.activation,
                        THREADS,
                        {bytes(x), bytes(y), c.adds ? bytes(added) : 0}};
  must_run(regard_multiply(&product));

  std::vector<double> right;
  for (Index i = 0; i < c.rows; ++i) {
    const auto row = inputs.begin() + i * c.inner;
    std::vector<double> sums = linear(std::vector<double>(row, row + c.inner));
    for (Index j = 0; j < c.columns; ++j)
      right.push_back(activated(sums[j], c.activation) + (c.adds ? added[i * c.columns + j] : 0));
  }
  compare("products", y, right, 2e-5);

  // a row alone, on one thread
  std::vector<float> alone = unknown<float>(c.columns);
  for (Index i = 0; i < c.rows; ++i) {
    const Index item = sizeof(float);
    const Product one{&linear.packed,
                      x.data() + i * x_step,
                      alone.data(),
                      c.adds ? added.data() + i * c.columns : nullptr,
                      1,
                      c.inner,
                      c.activation,
                      1,
                      {item * c.inner, bytes(alone), c.adds ? bytes(alone) : 0}};
    must_run(regard_multiply(&one));
    must(are_equal(alone.data(), y.data() + i * c.columns, c.columns),
         "a row has another product among other rows");
  }

  const auto run = [](const Product& wrong) { return regard_multiply(&wrong); };
  if (c.rows > 1 && c.columns > 0 && c.inner > 0) {
    must_refuse_wrong(product, {&Product::rows, &Product::x_step}, run);
    must_refuse_wrong_weight(linear.packed, [&](const Packed& weight) {
      Product wrong = product;
      wrong.weight = &weight;
      return run(wrong);
    });
    must_refuse(regard_pack(linear.weight.data(), bytes(linear.weight) - 1, &linear.packed));
    must_refuse_wrong_weight(linear.packed, [&](const Packed& weight) {
      return weight.columns == c.columns + 1 && !weight.bias  // the panel may have room for it
                 ? WRONG_SIZES
                 : regard_pack(linear.weight.data(), bytes(linear.weight), &weight);
    });
  }
  for (Index value : {Index(-1), Index(4), INT64_MAX}) {
    Product wrong = product;
    wrong.activation = value;
    must_refuse(run(wrong));
  }
  for (Index Product::*size : {&Product::rows, &Product::x_step})  // also where nothing is read
    for (Index value : WRONG) {
      Product wrong = product;
      wrong.*size = value;
      must_refuse(run(wrong));
    }
  Product wrong = product;
  wrong.weight = nullptr;
  must_refuse(run(wrong));
}

/// NaN in a row or a column of the weight stays there.
void check_not_a_number(Random& random) {
  PackedLinear linear(37, 5, true, random);
  linear.weight[17 * 5 + 2] = NAN;
  must_run(regard_pack(linear.weight.data(), bytes(linear.weight), &linear.packed));
  std::vector<float> x = drawn<float>(random, 7 * 5), y = unknown<float>(7 * 37);
  x[3 * 5 + 1] = INFINITY;
  for (Index activation : {NONE, RELU, GELU}) {
    const Product product{&linear.packed, x.data(), y.data(), nullptr, 7, 5, activation, 1, {bytes(x), bytes(y), 0}};
    must_run(regard_multiply(&product));
    for (Index i = 0; i < 7; ++i)
      for (Index j = 0; j < 37; ++j) {
        must(j != 17 || std::isnan(y[i * 37 + j]), "NaN of a weight is lost");
        must(j == 17 || i == 3 || std::isfinite(y[i * 37 + j]), "NaN in other rows and columns");
      }
  }
}

}  // namespace

int check_products(Random& random) {
  std::vector<Case> cases;
  for (Index rows = 0; rows <= 30; ++rows) cases.push_back({rows, 37, 17, rows % 3, true, rows % 2 == 0, false});
  for (Index columns : ODD_SIZES)
    for (Index inner : ODD_SIZES)
      for (Index activation : {NONE, RELU, GELU}) {
        cases.push_back({3, columns, inner, activation, false, true, true});
        cases.push_back({13, columns, inner, activation, true, false, false, 3});
      }
  for (Index rows : {0, 3})
    for (Index columns : {0, 5})
      for (Index inner : {0, 7}) cases.push_back({rows, columns, inner, RELU, true, true, false});
  for (Index rows : {29, 30}) cases.push_back({rows, 331, 127, GELU, true, true, rows == 30});  // for threads
  for (const Case& each : cases) check(each, random);
  check_not_a_number(random);
  return int(cases.size()) + 1;
}
