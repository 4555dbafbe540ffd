#include "server/run/advice.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "server/run/constant_keys.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/settle.h"

namespace gradstream {
namespace {

// zeta of 002: 1 where curvature is not negative. M of 000: 1 in Euclidean space, near it on small steps.
constexpr double kZeta = 1;
constexpr double kDistortion = 1;
// Data of order 1 in float: below it a difference of losses is rounding.
constexpr double kSmoothingMin = 1e-3;

std::string number(double value) {
  std::array<char, 32> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 4).ptr;
  return {text.data(), end};
}

// remedy: what to set where the bound does not hold.
std::string bound(const std::string& what, double value, const char* relation, double limit, const char* source,
                  const std::string& remedy = "") {
  const bool holds = relation[0] == '<' ? value <= limit : value >= limit;
  return what + " = " + number(value) + (holds ? ", within " : ", NOT within ") + relation + " " + number(limit) +
         " (" + source + ")" + (holds || remedy.empty() ? "" : ": set " + remedy);
}

// "step_size = 0.01 at most", rounded so that it keeps the bound.
std::string at_most(const std::string& key, double value) {
  return key + " = " + number(value * (1 - 1e-4)) + " at most";
}
std::string at_least(const std::string& key, double value) {
  return key + " = " + number(value * (1 + 1e-4)) + " at least";
}

// gamma of 003: half the radius of proximal smoothness, 1 where columns have norm 1. 0 where none is known.
double tube_of(ManifoldId id) {
  const bool has_unit_columns = id == ManifoldId::kSphere || id == ManifoldId::kStiefel || id == ManifoldId::kOblique;
  return has_unit_columns ? 0.5 : 0;
}

// The run's numbers by the letters of the works.
struct Letters {
  explicit Letters(const RunParameters& p)
      : l(p.constants->smoothness),
        mu(p.constants->pl_constant),
        sigma(p.constants->gradient_noise),
        excess(p.constants->initial_excess),
        alpha(p.step_size_at(0)),
        k(p.local->local_step_count),
        s(p.cohort->participation == Participation::kSchemeOne ? p.cohort->cohort_size : p.trigger->device_count),
        b(p.local->batch_size),
        t(p.trigger->round_count) {}
  double l, mu, sigma, excess, alpha, k, s, b, t;
};

// When the bound of 000 for several local steps is below that for one: the excess to begin with is above what the noise
// adds. (4.29) for a fixed step, (4.30) for decaying ones, B_t = B; both compare two steps with one.
void advise_several_steps(const RunParameters& p, const Letters& x, std::vector<std::string>* out) {
  double largest = 0;
  double smallest = x.alpha;
  double squares = 0;
  double cubes = 0;
  for (uint32_t t = 0; t < p.trigger->round_count; ++t) {
    const double alpha = p.step_size_at(t);
    largest = std::fmax(largest, alpha);
    smallest = std::fmin(smallest, alpha);
    squares += alpha * alpha;
    cubes += alpha * alpha * alpha;
  }
  const double delta = 1 - 2 * x.l * x.l * largest * largest * kDistortion;
  if (delta <= 0) {
    return;  // (4.8) does not hold, which another line says
  }
  const bool is_fixed = smallest == largest;
  const double noise = x.sigma * x.sigma * x.l / x.b;
  const double least = is_fixed ? noise * ((3 * delta - 1) * squares / (2 * x.s) + delta * x.l * kDistortion * cubes)
                                : noise * delta * (x.l * kDistortion * cubes + 2 / x.s * squares);
  out->push_back(bound(
      "initial_excess", x.excess, ">=", least,
      is_fixed ? "000 (4.29): several local steps pay over one" : "000 (4.30): several local steps pay over one"));
}

void advise_gradient_stream(const RunParameters& p, const Letters& x, std::vector<std::string>* out) {
  const double la = x.l * x.alpha;
  if (p.local->local_step_count == 1) {
    out->push_back(bound("L alpha", la, "<=", 2, "000 (4.7), K = 1", at_most("step_size", 2 / x.l)));
  } else {
    // The root of a square (L alpha)^2 + K L alpha = 1.
    const double square = kDistortion * (x.k + 1) * (x.k - 2);
    const double most = square > 0 ? (std::sqrt(x.k * x.k + 4 * square) - x.k) / (2 * square) : 1 / x.k;
    out->push_back(bound("L^2 alpha^2 (K+1)(K-2) + L alpha K", la * la * square + la * x.k, "<=", 1, "000 (4.8)",
                         at_most("step_size", most / x.l)));
    out->push_back(bound("2 L^2 alpha^2", 2 * la * la * kDistortion, "<=", 1, "000 (4.8)",
                         at_most("step_size", std::sqrt(0.5 / kDistortion) / x.l)));
  }
  const double delta = p.local->local_step_count == 1 ? 2 - la : 1 - 2 * la * la * kDistortion;
  if (x.mu > 0 && delta > 0) {
    const double limit = 1 / (x.mu * (x.k - 1 + delta));
    if (p.steps->step_rule == StepRule::kHarmonic) {
      out->push_back(
          bound("kappa = step_size", p.steps->step_size, ">=", limit, "000 (4.24)", at_least("step_size", limit)));
    } else {
      out->push_back(bound("alpha", x.alpha, "<=", limit, "000, linear rate under the RPL condition",
                           at_most("step_size", limit)));
    }
    const bool is_fixed = p.steps->step_rule == StepRule::kFixed ||
                          (p.steps->step_rule == StepRule::kInverse && p.steps->step_decay == 0);
    if (is_fixed && x.sigma > 0 && p.local->batch_mode == BatchMode::kCommon) {
      const double h = x.alpha * (2 * x.k - 1) * (x.k - 1) * kDistortion * x.l / 3 + x.k / x.s;
      const double floor = x.k * x.alpha * x.sigma * x.sigma * x.l * h / (2 * x.mu * x.b * (x.k - 1 + delta));
      out->push_back("with this fixed step the excess falls to about " + number(floor) + " (000, floor under RPL)");
    }
  }
  if (x.sigma > 0 && x.excess > 0 && p.local->batch_mode == BatchMode::kCommon) {
    const double best = std::sqrt(x.excess * x.s * x.b / (x.t * x.k * x.k * x.sigma * x.sigma * x.l));
    const double k2 = (2 * x.k - 1) * (x.k - 1);
    const double least = x.excess * x.b * x.l * kDistortion * kDistortion * x.s * x.s * x.s * k2 * k2 /
                         (9 * x.sigma * x.sigma * std::pow(x.k, 4));
    out->push_back("the best fixed step for these rounds is " + number(best) + " (000 (4.13)), from " + number(least) +
                   " rounds on");
    if (p.local->local_step_count > 1) {
      advise_several_steps(p, x, out);
    }
  }
}

void advise_svrg(const RunParameters& p, const Letters& x, std::vector<std::string>* out) {
  if (p.steps->step_rule == StepRule::kBarzilaiBorwein) {
    out->push_back(bound("step_max", p.steps->step_max, ">=", 1 / x.l,
                         "1/L: below it every Barzilai-Borwein step is cut to step_max",
                         at_least("step_max", 1 / x.l)));
    if (p.local->local_step_count == 1) {
      out->push_back(bound("step_max", p.steps->step_max, "<=", 2 / x.l, "002, tau = 1", at_most("step_max", 2 / x.l)));
    } else if (x.mu > 0) {
      const double least = 9 * kZeta * p.steps->step_max * p.steps->step_max * x.l * x.l / (x.mu * p.steps->step_min);
      out->push_back(bound("tau = local_step_count", x.k, ">=", least, "002 Theorem 2, one device a round",
                           "local_step_count = " + number(std::ceil(least)) + " at least"));
    }
    return;
  }
  if (p.local->local_step_count == 1) {
    out->push_back(bound("eta", x.alpha, "<=", 1 / x.l, "002, tau = 1", at_most("step_size", 1 / x.l)));
  } else if (x.mu > 0) {
    out->push_back(bound("eta", x.alpha, "<=", x.mu / (9 * kZeta * x.l * x.l), "002 Theorem 1, one device a round",
                         at_most("step_size", x.mu / (9 * kZeta * x.l * x.l))));
  }
}

// 003, Theorem 4.1, with M = 1: the other terms of its minimum need bounds of the gradients that nobody gives.
void advise_projection(const RunParameters& p, const Letters& x, std::vector<std::string>* out) {
  out->push_back(bound("eta_g eta tau", p.steps->server_step * x.alpha * x.k, "<=", 1 / (24 * x.l), "003 Theorem 4.1",
                       at_most("step_size", 1 / (24 * x.l * x.k * static_cast<double>(p.steps->server_step)))));
  out->push_back(bound("eta_g = server_step", p.steps->server_step, "<=", std::sqrt(x.s),
                       "003 takes the root of n itself", at_most("server_step", std::sqrt(x.s))));
  if (p.local->estimator == EstimatorId::kAnalyticGradient) {
    return;
  }
  const double smoothing = p.local->smoothing;
  if (const double gamma = tube_of(p.model->manifold); gamma > 0) {
    out->push_back(bound("mu = smoothing", smoothing, "<=", gamma, "003, gamma: the nearest point is unique",
                         at_most("smoothing", gamma)));
  }
  const double work = static_cast<double>(p.model->shape.size()) * x.s * x.k * x.t;
  out->push_back(bound("mu = smoothing", smoothing, "<=", 1 / work,
                       "003: of the order of 1/(p r n tau K) for its rate; in float shorter than 1e-3 is rounding",
                       at_most("smoothing", std::fmax(1 / work, kSmoothingMin))));
}

// While the slowest device does its steps, each other one makes at most slowest / fastest updates, buffer_size of which
// are a version.
void advise_staleness(const RunParameters& p, std::vector<std::string>* out) {
  if (p.trigger->buffer_size == 0) {
    return;
  }
  const bool has_times = p.trigger->step_time_min_us > 0 && p.trigger->step_time_max_us > 0;
  const double ratio = has_times ? static_cast<double>(p.trigger->step_time_max_us) / p.trigger->step_time_min_us : 1;
  const double behind = std::ceil((p.trigger->device_count - 1) * ratio / p.trigger->buffer_size);
  if (p.trigger->staleness_max < behind) {
    out->push_back(bound("staleness_max", p.trigger->staleness_max, ">=", behind,
                         has_times ? "what the slowest device is behind at most, by step_time_min_us and "
                                     "step_time_max_us; beyond staleness_max its updates are refused"
                                   : "what every device is behind where all are awake and of one speed; beyond "
                                     "staleness_max updates are refused"));
  }
}

}  // namespace

std::vector<std::string> advice(const RunParameters& parameters) {
  std::vector<std::string> lines;
  if (std::string hint = builtin_problem_hint(parameters.model->problem); !hint.empty()) {
    lines.push_back("problem = " + parameters.model->problem + ": " + std::move(hint));
  }
  if (std::string sentence = find_long_upload(parameters); !sentence.empty()) {
    lines.push_back(std::move(sentence));
  }
  advise_staleness(parameters, &lines);
  if (!(parameters.constants->smoothness > 0)) {
    return lines;
  }
  if (chooses_step(parameters)) {
    lines.push_back(
        "step_size = auto: the server finds the step by itself and reads no smoothness; leave smoothness out, or set "
        "step_size to a number to have it judged");
    return lines;
  }
  const Letters letters(parameters);
  if (parameters.local->solver == SolverId::kGradientStream || parameters.local->solver == SolverId::kTangentMean) {
    advise_gradient_stream(parameters, letters, &lines);
  } else if (parameters.local->solver == SolverId::kSvrg) {
    advise_svrg(parameters, letters, &lines);
  } else if (parameters.local->solver == SolverId::kProjection) {
    advise_projection(parameters, letters, &lines);
  }
  return lines;
}

}  // namespace gradstream
