// A step of each recurrent cell, against its formula in double precision; and the way back, against
// differences of that formula.
#include "checks.hpp"

#include <array>

namespace {

struct Case {
  Index kind, rows, size;
  bool masked, outside, later;  // with rows to skip; with gradients from outside, from a later step
};

constexpr Index APART = 5;  // numbers between rows that need not be neighbours
constexpr int GATES[] = {1, 3, 4}, KEPT[] = {0, 4, 4};

/// What one number of a new state depends on: its gates' sums, and the last state.
enum Part { OF_INPUT = 0, RECURRENT = 4, HIDDEN = 8, CELL, PARTS };
using Point = std::array<double, PARTS>;

struct State {
  double hidden, cell;
};

State stepped(Index kind, const Point& at) {
  auto gate = [&](int i) { return at[OF_INPUT + i] + at[RECURRENT + i]; };
  auto opened = [&](int i) { return 1 / (1 + std::exp(-gate(i))); };
  if (kind == ELMAN) return {std::tanh(gate(0)), 0};
  if (kind == GRU) {
    const double fresh = std::tanh(at[OF_INPUT + 2] + opened(0) * at[RECURRENT + 2]);
    return {(1 - opened(1)) * fresh + opened(1) * at[HIDDEN], 0};
  }
  const double cell = opened(1) * at[CELL] + opened(0) * std::tanh(gate(2));
  return {opened(3) * std::tanh(cell), cell};
}

/// How much of the gradient of the new state a part of the point gets.
double slope(Index kind, const Point& point, int part, State grad_output) {
  auto moved = [&](double by) {
    Point at = point;
    at[part] += by;
    const State found = stepped(kind, at);
    return grad_output.hidden * found.hidden + grad_output.cell * found.cell;
  };
  const double little = 1e-5;
  return (moved(little) - moved(-little)) / (2 * little);
}

/// The arrays of a problem, and of each number of a state its parts.
template <typename Number>
struct Arrays {
  Index gates, input_row;
  std::vector<Number> input_gates, recurrent, last_hidden;
  std::vector<float> last_cell;

  Arrays(const Case& c, Random& random)
      : gates(GATES[c.kind] * c.size),
        input_row(gates + APART),
        input_gates(drawn<Number>(random, c.rows * input_row)),
        recurrent(drawn<Number>(random, c.rows * gates)),
        last_hidden(drawn<Number>(random, c.rows * c.size, 0.5)),
        last_cell(drawn<float>(random, c.kind == LSTM ? c.rows * c.size : 0)) {}

  Point point(const Case& c, Index row, Index place) const {
    Point at{};
    for (int gate = 0; gate < GATES[c.kind]; ++gate) {
      at[OF_INPUT + gate] = value(input_gates[row * input_row + gate * c.size + place]);
      at[RECURRENT + gate] = value(recurrent[row * gates + gate * c.size + place]);
    }
    at[HIDDEN] = value(last_hidden[row * c.size + place]);
    at[CELL] = c.kind == LSTM ? last_cell[row * c.size + place] : 0;
    return at;
  }
};

template <typename Number>
void check(const Case& c, Random& random) {
  const Arrays<Number> arrays(c, random);
  const Index gates = arrays.gates, numbers = c.rows * c.size, cells = c.kind == LSTM ? numbers : 0;
  std::vector<std::uint8_t> mask(2 * c.rows);
  for (std::uint8_t& each : mask) each = random() % 3 != 0;
  const Index apart = c.rows ? APART * sizeof(Number) : 0;  // behind the last row
  auto skipped = [&](Index row) { return c.masked && !mask[2 * row]; };

  std::vector<Number> hidden = unknown<Number>(numbers), saved = unknown<Number>(KEPT[c.kind] * numbers);
  std::vector<float> cell = unknown<float>(cells);
  const CellStep step{c.kind, c.rows, c.size, IS_BFLOAT16<Number>, THREADS, arrays.input_gates.data(),
                      arrays.input_row, arrays.recurrent.data(), arrays.last_hidden.data(),
                      arrays.last_cell.data(), c.masked ? mask.data() : nullptr, 2, hidden.data(),
                      cell.data(), saved.data(),
                      {bytes(arrays.input_gates) - apart, bytes(arrays.recurrent),
                       bytes(arrays.last_hidden), bytes(arrays.last_cell),
                       c.masked ? bytes(mask) - 1 : 0, bytes(hidden), bytes(cell), bytes(saved)}};
  must_run(regard_cell_step(&step));

  std::vector<double> right_hidden(numbers), right_cell(cells);
  for (Index i = 0; i < numbers; ++i) {
    const Point at = arrays.point(c, i / c.size, i % c.size);
    const State right = skipped(i / c.size) ? State{at[HIDDEN], at[CELL]} : stepped(c.kind, at);
    right_hidden[i] = right.hidden;
    if (cells) right_cell[i] = right.cell;
  }
  compare("hidden states", hidden, right_hidden);
  compare("cells", cell, right_cell);

  const Index grad_output_row = c.size + APART;
  const std::vector<Number> grad_output = drawn<Number>(random, c.rows * grad_output_row);
  const std::vector<Number> grad_recurrent = drawn<Number>(random, numbers);
  const std::vector<float> passed_before = drawn<float>(random, numbers);
  const std::vector<float> cell_before = drawn<float>(random, cells);
  std::vector<float> grad_carried = passed_before, grad_cell = cell_before;
  std::vector<Number> input_gates = unknown<Number>(c.rows * gates), of_recurrent = input_gates;
  const CellBack back{c.kind, c.rows, c.size, IS_BFLOAT16<Number>, THREADS,
                      c.outside ? grad_output.data() : nullptr, grad_output_row, c.later ? grad_recurrent.data() : nullptr,
                      grad_carried.data(), grad_cell.data(), arrays.last_hidden.data(),
                      arrays.last_cell.data(), hidden.data(), cell.data(), saved.data(),
                      c.masked ? mask.data() : nullptr, 2,
                      input_gates.data(), c.kind == GRU ? of_recurrent.data() : input_gates.data(),
                      {c.outside ? bytes(grad_output) - apart : 0, c.later ? bytes(grad_recurrent) : 0, bytes(grad_carried),
                       bytes(grad_cell), bytes(arrays.last_hidden), bytes(arrays.last_cell),
                       bytes(hidden), bytes(cell), bytes(saved), c.masked ? bytes(mask) - 1 : 0,
                       bytes(input_gates), bytes(input_gates)}};
  must_run(regard_cell_back(&back));

  std::vector<double> right_input(c.rows * gates), right_recurrent(c.rows * gates);
  std::vector<double> right_passed(numbers), right_grad_cell(cells);
  for (Index i = 0; i < numbers; ++i) {
    const Index row = i / c.size, place = i % c.size;
    const State whole{passed_before[i] + (c.outside ? value(grad_output[row * grad_output_row + place]) : 0) +
                          (c.later ? value(grad_recurrent[i]) : 0),
                      cells ? cell_before[i] : 0};
    const Point at = arrays.point(c, row, place);
    auto given = [&](int part, double where_skipped) {
      return skipped(row) ? where_skipped : slope(c.kind, at, part, whole);
    };
    for (int gate = 0; gate < GATES[c.kind]; ++gate) {
      right_input[row * gates + gate * c.size + place] = given(OF_INPUT + gate, 0);
      right_recurrent[row * gates + gate * c.size + place] = given(RECURRENT + gate, 0);
    }
    right_passed[i] = given(HIDDEN, whole.hidden);
    if (cells) right_grad_cell[i] = given(CELL, whole.cell);
  }
  // gradients are many times what was saved, and that has lost digits
  const double tolerance = IS_BFLOAT16<Number> ? 0x1p-4 : 2e-5;
  compare("gradients of what the input gives", input_gates, right_input, tolerance);
  if (c.kind == GRU) compare("gradients of what comes grad_recurrent", of_recurrent, right_recurrent, tolerance);
  compare("gradients that pass", grad_carried, right_passed, tolerance);
  compare("gradients of cells", grad_cell, right_grad_cell, tolerance);
  if (numbers == 0) return;
  must_refuse_wrong(step, {&CellStep::rows, &CellStep::size},
                    [](const CellStep& wrong) { return regard_cell_step(&wrong); });
  must_refuse_wrong(back, {&CellBack::rows, &CellBack::size},
                    [](const CellBack& wrong) { return regard_cell_back(&wrong); });
  for (Index kind : {-1, 3}) {
    CellStep wrong = step;
    wrong.kind = kind;
    must_refuse(regard_cell_step(&wrong));
  }
}

}  // namespace

int check_cells(Random& random) {
  std::vector<Case> cases;
  for (Index kind : {ELMAN, GRU, LSTM}) {
    for (Index size : ODD_SIZES)
      for (int options = 0; options < 8; ++options) {
        const bool masked = options & 1, outside = options & 2, later = options & 4;
        cases.push_back({kind, 3, size, masked, outside, later});
      }
    cases.push_back({kind, 67, 1031, true, true, true});  // large enough for threads
    cases.push_back({kind, 0, 5, true, true, true});
  }
  for (const Case& each : cases) check<float>(each, random), check<BFloat16>(each, random);
  return 2 * int(cases.size());
}
