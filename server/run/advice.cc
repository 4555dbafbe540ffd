#include "server/run/advice.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "server/run/constant_keys.h"
#include "server/run/names.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"
#include "server/run/settle.h"
#include "server/run/tube_constants.h"

namespace gradstream {
namespace {

// M of 000: 1 in Euclidean space, near it on small steps.
constexpr double kDistortion = 1;
// Data of order 1 in float: below it a difference of losses is rounding.
constexpr double kSmoothingMin = 1e-3;

std::string number(double value) {
  std::array<char, 32> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 4).ptr;
  return {text.data(), end};
}

// remedy: what to set where the bound does not hold.
std::string bound(const std::string& what, double value, const char* relation, double limit, const std::string& source,
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

// The steps that the bounds of 000 are sums over.
struct StepSums {
  explicit StepSums(const RunParameters& p) {
    smallest = p.step_size_at(0);
    for (uint32_t t = 0; t < p.trigger->round_count; ++t) {
      const double alpha = p.step_size_at(t);
      largest = std::fmax(largest, alpha);
      smallest = std::fmin(smallest, alpha);
      sum += alpha;
      squares += alpha * alpha;
      cubes += alpha * alpha * alpha;
    }
  }
  bool is_fixed() const { return smallest == largest; }
  double largest = 0;
  double smallest = 0;
  double sum = 0;
  double squares = 0;
  double cubes = 0;
};

// When the bound of 000 for several local steps is below that for one: the excess to begin with is above what the noise
// adds. (4.29) for a fixed step, (4.30) for decaying ones, B_t = B; both compare two steps with one.
void advise_several_steps(const Letters& x, const StepSums& steps, std::vector<std::string>* out) {
  const double delta = 1 - 2 * x.l * x.l * steps.largest * steps.largest * kDistortion;
  if (delta <= 0) {
    return;  // (4.8) does not hold, which another line says
  }
  const double noise = x.sigma * x.sigma * x.l / x.b;
  const double least =
      steps.is_fixed() ? noise * ((3 * delta - 1) * steps.squares / (2 * x.s) + delta * x.l * kDistortion * steps.cubes)
                       : noise * delta * (x.l * kDistortion * steps.cubes + 2 / x.s * steps.squares);
  out->push_back(bound("initial_excess", x.excess, ">=", least,
                       steps.is_fixed() ? "000 (4.29): several local steps pay over one"
                                        : "000 (4.30): several local steps pay over one"));
}

// (K - 1 + delta) sum alpha Q(K): 2 (F(x_0) - F*) and what the noise of K local steps adds.
double bound_of_steps(const Letters& x, const StepSums& steps, double k) {
  const double noise = k * x.l * x.sigma * x.sigma / x.b;
  return 2 * x.excess + noise * ((2 * k - 1) * (k - 1) * kDistortion * x.l / 3 * steps.cubes + k / x.s * steps.squares);
}

// K* = argmin Q(K) of 000, section 4.3, over the K that (4.8) allows. Q_1 is of a fixed step, Q_2 of decaying ones:
//   Q(K) = (2 (F(x_0) - F*) + sum alpha^2 K L sigma^2 H(K) / B) / ((K - 1 + delta) sum alpha),
//   H(K) = alpha (2 K - 1)(K - 1) M L / 3 + K / S.
void advise_step_count(const Letters& x, const StepSums& steps, std::vector<std::string>* out) {
  const double la = x.l * steps.largest;
  const double delta = 1 - 2 * la * la * kDistortion;
  if (delta <= 0) {
    return;  // (4.8) does not hold, which another line says
  }
  double best_k = 1;
  double best = std::numeric_limits<double>::infinity();
  for (uint32_t k = 1; k <= kLocalStepCountMax; ++k) {
    if (k > 1 && la * la * kDistortion * (k + 1.0) * (k - 2.0) + la * k > 1) {
      break;
    }
    const double value = bound_of_steps(x, steps, k) / ((k - 1 + delta) * steps.sum);
    if (value < best) {
      best = value;
      best_k = k;
    }
  }
  out->push_back("local_step_count = " + number(x.k) + ": the bound is least at K* = " + number(best_k) +
                 ", where it is " + number(best) + " (000 section 4.3, argmin of " +
                 (steps.is_fixed() ? "Q_1" : "Q_2") + " over the K that (4.8) allows)");
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
    const StepSums steps(p);
    if (p.local->local_step_count > 1) {
      advise_several_steps(x, steps, out);
    }
    advise_step_count(x, steps, out);
  }
}

// zeta of 002 (its Lemma 1), which lengthens the third side of a triangle where curvature is negative. 0: it has no
// number, and `note` says why; else `note` is what a line with zeta adds to its source.
struct Zeta {
  double value = 0;
  std::string note;
};

Zeta zeta_of(const RunParameters& p) {
  const Curvature curvature = curvature_of(p);
  const double diameter = p.constants->diameter;
  if (!curvature.is_bounded) {
    return {0,
            "zeta of 002 has no number: curvature has no lower bound on a manifold with parts of fixed rank, and "
            "no bound of 002 is judged"};
  }
  if (curvature.least >= 0) {
    return {1, ""};
  }
  if (diameter > 0) {
    const double c = std::sqrt(-curvature.least) * diameter;
    const double zeta = c / std::tanh(c);
    return {zeta, ", zeta = " + number(zeta) + " by diameter"};
  }
  const std::string least = number(curvature.least);
  if (curvature.is_compact) {
    return {1, ", zeta = 1, its least: curvature comes down to " + least + " here, and diameter gives its zeta"};
  }
  return {0, "zeta of 002 has no number: curvature comes down to " + least +
                 " on this manifold; set diameter, the largest distance of two models of the run, to have the bounds "
                 "of 002 judged"};
}

// Option 2 of 002, which sends an iterate that is drawn. A fixed step is that of 2BBS with both its bounds the same,
// eta = eta_max / tau.
void advise_uniform_iterate(const RunParameters& p, const Letters& x, const Zeta& zeta, std::vector<std::string>* out) {
  const std::string source = "002 Theorems 5 and 6, iterate = uniform";
  const double limit = 3 / (2 * x.l);
  if (p.steps->step_rule == StepRule::kBarzilaiBorwein) {
    out->push_back(bound("eta_max = step_max", p.steps->step_max, "<=", limit, source, at_most("step_max", limit)));
  } else {
    out->push_back(bound("eta tau", x.alpha * x.k, "<=", limit, source, at_most("step_size", limit / x.k)));
  }
  const double least = 24 * zeta.value * zeta.value;
  out->push_back(bound("tau = local_step_count", x.k, ">=", least, source + zeta.note,
                       "local_step_count = " + number(std::ceil(least)) + " at least"));
}

void advise_svrg(const RunParameters& p, const Letters& x, std::vector<std::string>* out) {
  const bool is_uniform = p.local->iterate == Iterate::kUniform;
  const bool has_rule = p.steps->step_rule == StepRule::kBarzilaiBorwein;
  if (has_rule) {
    out->push_back(bound("step_max", p.steps->step_max, ">=", 1 / x.l,
                         "1/L: below it every Barzilai-Borwein step is cut to step_max",
                         at_least("step_max", 1 / x.l)));
  }
  if (!is_uniform && p.local->local_step_count == 1) {
    out->push_back(
        has_rule ? bound("step_max", p.steps->step_max, "<=", 2 / x.l, "002, tau = 1", at_most("step_max", 2 / x.l))
                 : bound("eta", x.alpha, "<=", 1 / x.l, "002, tau = 1", at_most("step_size", 1 / x.l)));
    return;
  }
  if (!is_uniform && !(x.mu > 0)) {
    return;
  }
  const Zeta zeta = zeta_of(p);
  if (zeta.value == 0) {
    out->push_back(zeta.note);
  } else if (is_uniform) {
    advise_uniform_iterate(p, x, zeta, out);
  } else if (has_rule) {
    const double least =
        9 * zeta.value * p.steps->step_max * p.steps->step_max * x.l * x.l / (x.mu * p.steps->step_min);
    out->push_back(bound("tau = local_step_count", x.k, ">=", least, "002 Theorem 2, one device a round" + zeta.note,
                         "local_step_count = " + number(std::ceil(least)) + " at least"));
  } else {
    const double most = x.mu / (9 * zeta.value * x.l * x.l);
    out->push_back(
        bound("eta", x.alpha, "<=", most, "002 Theorem 1, one device a round" + zeta.note, at_most("step_size", most)));
  }
}

// 003, Theorem 4.1: eta_g eta tau is at most min{1/(24 M L), gamma/(6 max(chi_G, chi)), 1/(chi L_P)}.
void advise_whole_step(const RunParameters& p, const Letters& x, std::vector<std::string>* out) {
  const TubeConstants tube = tube_of(p);
  const double chi = p.constants->gradient_bound;
  const double chi_g = estimate_bound(p, tube, chi);
  double limit = 1 / (24 * tube.stretch * x.l);
  std::string source = "003 Theorem 4.1";
  const std::string first = "1/(24 M L) with M = " + number(tube.stretch);
  if (std::isinf(tube.gamma)) {
    source += ": " + first + "; the other two conditions hold in Euclidean space";
  } else if (tube.gamma == 0) {
    source += ", first of three conditions: " + first + ", of any set; no gamma is known of this manifold";
  } else if (!(chi > 0) || !std::isfinite(chi_g)) {
    source += ", first of three conditions: " + first + ", inside gamma = " + number(tube.gamma) +
              (chi > 0 ? "; estimates along tangent normals have no bound chi_G"
                       : "; gradient_bound = chi has the other two judged");
  } else {
    const double second = tube.gamma / (6 * std::fmax(chi_g, chi));
    const double third = 1 / (chi * tube.bend);
    source += ", the least of three: " + first + " is " + number(limit) +
              ", gamma/(6 max(chi_G, chi)) with chi_G = " + number(chi_g) + " is " + number(second) +
              ", 1/(chi L_P) with L_P = " + number(tube.bend) + " is " + number(third);
    limit = std::fmin(limit, std::fmin(second, third));
  }
  const double per_step = x.k * static_cast<double>(p.steps->server_step);
  out->push_back(
      bound("eta_g eta tau", per_step * x.alpha, "<=", limit, source, at_most("step_size", limit / per_step)));
}

// What smoothing suits the noise of a loss; nothing where the run has no noise or no smoothing.
void advise_noise(const RunParameters& p, std::vector<std::string>* out) {
  const double noise = p.constants->loss_noise;
  if (!(noise > 0) || p.local->estimator == EstimatorId::kAnalyticGradient) {
    return;
  }
  if (!(p.constants->smoothness > 0)) {
    out->push_back("loss_noise = " + number(noise) +
                   ": the smoothing that suits it depends on L as well; set smoothness = L");
    return;
  }
  const double gamma = tube_of(p).gamma;
  const double suited = suited_smoothing(p, noise, p.constants->smoothness);
  const bool is_far = gamma > 0 && suited > gamma;
  const bool is_two_sided = p.local->estimator == EstimatorId::kProjectionTwoSided;
  out->push_back("mu = smoothing = " + number(p.local->smoothing) + ": an estimate errs least at smoothing = " +
                 number(is_far ? gamma : suited) + " where a loss has the noise loss_noise = " + number(noise) +
                 (is_far ? " (gamma of 003: the nearest point is unique; by the noise alone " + number(suited) + ")"
                  : is_two_sided ? " ((3 noise / L)^(1/3): two-sided difference, third derivative taken as L)"
                                 : " (sqrt(2 sqrt(2) noise / L): one-sided difference, curvature L)"));
}

void advise_projection(const RunParameters& p, const Letters& x, std::vector<std::string>* out) {
  advise_whole_step(p, x, out);
  out->push_back(bound("eta_g = server_step", p.steps->server_step, "<=", std::sqrt(x.s),
                       "003 takes the root of n itself", at_most("server_step", std::sqrt(x.s))));
  if (p.local->estimator == EstimatorId::kAnalyticGradient) {
    return;
  }
  const double smoothing = p.local->smoothing;
  if (const double gamma = tube_of(p).gamma; gamma > 0 && std::isfinite(gamma)) {
    out->push_back(bound("mu = smoothing", smoothing, "<=", gamma, "003, gamma: the nearest point is unique",
                         at_most("smoothing", gamma)));
  }
  if (p.constants->loss_noise > 0) {
    return;  // 1/(p r n tau K) is of losses without noise: at that length a difference would be noise
  }
  const double work = static_cast<double>(p.model->shape.size()) * x.s * x.k * x.t;
  out->push_back(bound("mu = smoothing", smoothing, "<=", 1 / work,
                       "003: of the order of 1/(p r n tau K) for its rate; in float shorter than 1e-3 is rounding",
                       at_most("smoothing", std::fmax(1 / work, kSmoothingMin))));
}

// 004, Theorem 1 (69): the local step that its rate 1/sqrt(T) is for.
void advise_delayed_step(const RunParameters& p, const Letters& x, std::vector<std::string>* out) {
  if (p.trigger->buffer_size == 0 || !(x.mu > 0)) {
    return;
  }
  const double step = 1 / (x.mu * x.l * x.k * std::sqrt(x.t));
  out->push_back("step_size = " + number(x.alpha) + ": 004 takes " + number(step) +
                 " for its rate (Theorem 1, 1/(mu L_N K sqrt T), with L for L_N and round_count for T)");
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
  advise_noise(parameters, &lines);
  if (!(parameters.constants->smoothness > 0)) {
    return lines;
  }
  if (chooses_step(parameters) && parameters.constants->loss_noise > 0) {
    return lines;  // what smoothness was for is said
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
  advise_delayed_step(parameters, letters, &lines);
  return lines;
}

}  // namespace gradstream
