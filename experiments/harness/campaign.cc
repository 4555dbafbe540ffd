#include "experiments/harness/campaign.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "experiments/harness/compare.h"
#include "experiments/harness/network.h"
#include "host/standard_files.h"
#include "server/run/run_core.h"

namespace gradstream {
namespace {

// Starts that a sensitive case is run from besides. Reason: a unit of one entry, if that one is small, may move a run
// by nothing at all.
constexpr uint32_t kNudges[] = {0, 1, 2, kNudgeAll};

struct Job {
  size_t part = 0;                     // the experiment
  const Case* one = nullptr;           // of its cases
  uint32_t nudged_entry = kNudgeNone;  // of a run beside the case's own
};

__attribute__((format(printf, 1, 2))) std::string line_of(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  char* text = nullptr;
  const int size = vasprintf(&text, format, arguments);
  va_end(arguments);
  GS_ASSERT(size >= 0);
  std::string line(text, static_cast<size_t>(size));
  std::free(text);
  return line + "\n";
}

std::string case_line(const Case& one, const Curve& curve) {
  const CurvePoint last = curve.points.empty() ? CurvePoint() : curve.points.back();
  const std::string optimality =
      std::isfinite(last.measures.optimality) ? " optimality=" + figure(last.measures.optimality) : "";
  return line_of("case %-34s rounds=%u excess=%.3e grad_norm=%.3e bytes_up=%llu bytes_down=%llu seconds=%.1f%s%s%s%s",
                 one.key.c_str(), last.round, last.measures.excess, last.measures.grad_norm,
                 static_cast<unsigned long long>(last.bytes_up), static_cast<unsigned long long>(last.bytes_down),
                 curve.seconds, optimality.c_str(), text_of(curve.tube).c_str(),
                 curve.fault.empty() ? "" : " ended by: ", curve.fault.c_str());
}

// One experiment on its way. Everything but prepare() and next_job(), which one thread at a time calls, belongs to the
// printing lock of the campaign.
class CampaignPart {
 public:
  CampaignPart(size_t index, const Experiment& experiment, const CampaignOptions& options)
      : index_(index), experiment_(experiment), options_(options) {}

  // Loads data and finds optima: seconds.
  void prepare();
  std::optional<Job> next_job();

  std::string title() const { return line_of("experiment %s: %s", experiment_.name, experiment_.title); }
  // What is to be printed of a job's end.
  std::string add(const Job& job, Curve curve);
  // Once all curves are there, in float: cases that do not follow their references, from nudged starts. They show
  // whether rounding has led them away. To be run before conclude().
  std::vector<Job> doubts();
  bool has_all_curves() const { return left_ == 0; }
  // The verdict, to be printed; lets go of cases and curves.
  std::string conclude();
  Outcome outcome() const { return outcome_; }

 private:
  uint32_t seed() const { return options_.harness.request.seed; }
  uint32_t seed_of(const Case& one) const { return one.seed == 0 ? seed() : one.seed; }
  bool follows(const Case& one, const ReferenceCurve& reference) const;
  bool is_sensitive(const Case& one, const ReferenceCurve& reference) const;
  bool is_sensitive(const Case& one) const;
  bool is_in_doubt(const Case& one) const;
  bool is_whole() const;
  std::string folder() const;
  bool write_network(const Case& one, const Curve& curve, std::string* text) const;
  size_t hold_case(const Case& one, std::vector<HeldKey>* held, std::vector<HeldMeasure>* lines,
                   Judgement* judgement) const;
  void hold_to_references(Judgement* judgement);

  size_t index_;
  const Experiment& experiment_;
  const CampaignOptions& options_;
  std::vector<Case> cases_;
  std::vector<ReferenceCurve> references_;
  std::vector<ReferenceException> exceptions_;
  std::deque<Job> jobs_;
  size_t left_ = 0;  // jobs that have not ended
  Curves curves_;
  std::map<std::string, std::vector<Curve>> nudged_;  // by the case's key
  bool has_doubted_ = false;
  bool is_written_ = true;
  bool is_network_written_ = true;
  size_t reference_count_ = 0;  // lines that a curve was compared with
  Outcome outcome_ = Outcome::kSkipped;
};

void CampaignPart::prepare() {
  cases_ = experiment_.cases(options_.harness.request);
  const bool was_there = !cases_.empty();
  std::erase_if(cases_, [&](const Case& one) { return one.key.find(options_.case_part) == std::string::npos; });
  outcome_ = cases_.empty() && was_there ? Outcome::kNoSuchCase : Outcome::kSkipped;
  references_ = read_references(experiment_.name);
  exceptions_ = read_exceptions(experiment_.name);
  for (const Case& one : cases_) {
    jobs_.push_back({index_, &one, options_.harness.nudged_entry});
    for (const uint32_t nudge : kNudges) {
      if (is_sensitive(one)) {
        jobs_.push_back({index_, &one, nudge});
      }
    }
  }
  left_ = jobs_.size();
}

std::optional<Job> CampaignPart::next_job() {
  if (jobs_.empty()) {
    return std::nullopt;
  }
  const Job job = jobs_.front();
  jobs_.pop_front();
  return job;
}

bool CampaignPart::follows(const Case& one, const ReferenceCurve& reference) const {
  const bool is_its_own = reference.key == one.key && one.reference_key != kNoReference;
  return (is_its_own || reference.key == one.reference_key) && reference.seed == seed_of(one);
}

bool CampaignPart::is_sensitive(const Case& one, const ReferenceCurve& reference) const {
  return std::any_of(exceptions_.begin(), exceptions_.end(), [&](const ReferenceException& exception) {
    return exception.kind == ReferenceException::Kind::kSensitive &&
           matches(exception, one.key, seed_of(one), reference.measure);
  });
}

bool CampaignPart::is_sensitive(const Case& one) const {
  return std::any_of(references_.begin(), references_.end(), [&](const ReferenceCurve& reference) {
    return follows(one, reference) && is_sensitive(one, reference);
  });
}

bool CampaignPart::is_whole() const {
  return options_.case_part.empty() && options_.harness.round_count_max == UINT32_MAX &&
         options_.harness.nudged_entry == kNudgeNone;
}

std::string CampaignPart::folder() const {
  return options_.harness.results_folder + "/" + experiment_.name + "/seed" + std::to_string(seed());
}

// Files for the run over TLS, and a line that tools/experiment.py reads.
bool CampaignPart::write_network(const Case& one, const Curve& curve, std::string* text) const {
  RunParameters parameters = complete_parameters(one, options_.harness.request);
  parameters.trigger->round_count = std::min(parameters.trigger->round_count, options_.harness.round_count_max);
  const std::string folder = options_.network_folder + "/" + experiment_.name + "/" + case_file_name(one.key);
  text->append(line_of("network case=%s folder=%s devices=%u problem=%s ridge=%.9g digest=%016llx", one.key.c_str(),
                       folder.c_str(), parameters.trigger->device_count, parameters.model->problem.c_str(),
                       static_cast<double>(network_ridge(*one.workload)),
                       static_cast<unsigned long long>(curve.digest)));
  return write_network_case(folder, parameters, *one.workload);
}

std::string CampaignPart::add(const Job& job, Curve curve) {
  --left_;
  if (job.nudged_entry != options_.harness.nudged_entry) {
    nudged_[job.one->key].push_back(std::move(curve));
    return "";
  }
  std::string text = case_line(*job.one, curve);
  is_written_ = write_csv(folder(), job.one->key, curve, experiment_.axis) && is_written_;
  if (!options_.network_folder.empty() && has_network_run(*job.one)) {
    is_network_written_ = write_network(*job.one, curve, &text) && is_network_written_;
  }
  curves_[job.one->key] = std::move(curve);
  return text;
}

bool CampaignPart::is_in_doubt(const Case& one) const {
  if (curves_.at(one.key).points.empty() || nudged_.contains(one.key)) {
    return false;
  }
  Judgement alone;
  std::vector<HeldKey> held;
  std::vector<HeldMeasure> lines;
  hold_case(one, &held, &lines, &alone);
  return alone.failed_count() > 0;
}

std::vector<Job> CampaignPart::doubts() {
  std::vector<Job> jobs;
  if (kIsDouble || left_ > 0 || std::exchange(has_doubted_, true) || options_.harness.nudged_entry != kNudgeNone) {
    return jobs;
  }
  for (const Case& one : cases_) {
    for (const uint32_t nudge : kNudges) {
      if (is_in_doubt(one)) {
        jobs.push_back({index_, &one, nudge});
      }
    }
  }
  left_ = jobs.size();
  return jobs;
}

// Holds one case to all lines of the reference that it follows; appends their keys to `held`, and them to `lines`. To
// how many of them its curve was.
size_t CampaignPart::hold_case(const Case& one, std::vector<HeldKey>* held, std::vector<HeldMeasure>* lines,
                               Judgement* judgement) const {
  size_t count = 0;
  const Curve& curve = curves_.at(one.key);
  const auto nudged = nudged_.find(one.key);
  for (const ReferenceCurve& reference : references_) {
    if (!follows(one, reference)) {
      continue;
    }
    held->push_back({reference.key, reference.seed});
    lines->push_back({{one.key, seed_of(one)}, reference.measure});
    if (reference.points.front().round > options_.harness.round_count_max) {
      continue;  // a figure of the last round
    }
    if (curve.points.empty()) {
      judgement->check(one.key + " runs: " + curve.fault, false);
      continue;
    }
    Tolerance tolerance = tolerance_of(reference, one.parameters, curve.optimum, exceptions_, one.key, seed_of(one));
    tolerance.may_end_early = !curve.fault.empty() && may_end(exceptions_, one.key, seed_of(one), curve);
    const bool has_nudged = nudged != nudged_.end() && (!kIsDouble || is_sensitive(one, reference));
    tolerance.nudged = has_nudged ? nudged->second : std::vector<Curve>();
    compare(reference, curve, tolerance, options_.harness.round_count_max, judgement);
    ++count;
  }
  return count;
}

void CampaignPart::hold_to_references(Judgement* judgement) {
  std::vector<HeldKey> held;
  std::vector<HeldKey> cases;
  std::vector<HeldMeasure> lines;
  for (const Case& one : cases_) {
    cases.push_back({one.key, seed_of(one)});
    reference_count_ += hold_case(one, &held, &lines, judgement);
  }
  if (is_whole()) {
    check_marks(exceptions_, cases, lines, seed(), judgement);
    check_coverage(references_, exceptions_, held, seed(), judgement);
    check_ends(exceptions_, curves_, seed(), judgement);
  }
}

std::string CampaignPart::conclude() {
  if (cases_.empty()) {
    return outcome_ == Outcome::kNoSuchCase
               ? ""
               : line_of("result: name=%s seed=%u skipped=1 reason=no_%s_in_the_data_folder data=%s", experiment_.name,
                         seed(), experiment_.needs, options_.harness.request.data_folder.c_str());
  }
  is_written_ = write_picture(folder(), experiment_, curves_) && is_written_;
  if (experiment_.write_more != nullptr) {
    is_written_ = experiment_.write_more(folder(), curves_) && is_written_;
  }
  if (experiment_.write_samples != nullptr) {
    is_written_ = experiment_.write_samples(folder(), options_.harness.request, curves_) && is_written_;
  }
  Judgement judgement;
  hold_to_references(&judgement);
  if (is_whole()) {
    experiment_.judge(curves_, options_.harness.request, &judgement);
  } else {
    judgement.note("not judged as an experiment: some cases, or some rounds, were left out, or a start was moved");
  }
  double seconds = 0;
  TubeCounts tube;
  for (const auto& [key, curve] : curves_) {
    seconds += curve.seconds;
    tube += curve.tube;
    if (!curve.fault.empty()) {
      judgement.note("ended      " + key + " at round " +
                     std::to_string(curve.points.empty() ? 0 : curve.points.back().round) + " by " + curve.fault);
    }
  }
  if (tube != TubeCounts()) {
    judgement.note("tube      " + text_of(tube) +
                   " (what left the theorems' regions, of all: experiments/harness/tube.h)");
  }
  judgement.check("results are written to " + folder(), is_written_);
  if (!options_.network_folder.empty()) {
    judgement.check("files for a run over connections are written to " + options_.network_folder, is_network_written_);
  }
  if (options_.mean_parts != nullptr) {
    for (const MeanPart& part : judgement.mean_parts()) {
      options_.mean_parts->push_back(
          {std::string(experiment_.name) + ", " + part.what, part.value, part.wanted, part.is_order});
    }
  }
  std::string text;
  for (const std::string& line : judgement.lines()) {
    text += line + "\n";
  }
  text += line_of(
      "result: name=%s seed=%u passed=%d precision=%s cases=%zu references=%zu criteria=%u failed=%u seconds=%.0f%s%s",
      experiment_.name, seed(), judgement.passed() ? 1 : 0, kPrecisionName, cases_.size(), reference_count_,
      judgement.check_count(), judgement.failed_count(), seconds, judgement.fields().c_str(),
      is_whole() ? "" : " judged=0");
  outcome_ = judgement.passed() ? Outcome::kPassed : Outcome::kFailed;
  cases_.clear();
  curves_.clear();
  nudged_.clear();
  return text;
}

class Campaign {
 public:
  Campaign(std::span<const Experiment* const> experiments, const CampaignOptions& options) : options_(options) {
    for (size_t i = 0; i < experiments.size(); ++i) {
      parts_.emplace_back(i, *experiments[i], options);
    }
    texts_.resize(parts_.size());
    is_concluded_.resize(parts_.size());
  }

  std::vector<Outcome> run() {
    {
      std::vector<std::jthread> threads;
      for (uint32_t i = 1; i < options_.thread_count; ++i) {
        threads.emplace_back([this] { work(); });
      }
      work();
    }
    std::vector<Outcome> outcomes;
    std::transform(parts_.begin(), parts_.end(), std::back_inserter(outcomes),
                   [](const CampaignPart& p) { return p.outcome(); });
    return outcomes;
  }

 private:
  void work() {
    while (const std::optional<Job> job = take()) {
      run(*job);
    }
  }

  void run(const Job& job) {
    HarnessOptions harness = options_.harness;
    harness.nudged_entry = job.nudged_entry;
    Curve curve = run_case(*job.one, harness);
    std::vector<Job> doubts;
    {
      const std::lock_guard lock(printing_);
      print(job.part, parts_[job.part].add(job, std::move(curve)));
      doubts = parts_[job.part].doubts();
      conclude_if_done(job.part);
    }
    for (const Job& doubt : doubts) {
      run(doubt);
    }
  }

  // Prepares the next experiment when the one before has no more jobs.
  std::optional<Job> take() {
    const std::lock_guard lock(taking_);
    while (true) {
      if (prepared_count_ > 0) {
        if (std::optional<Job> job = parts_[prepared_count_ - 1].next_job()) {
          return job;
        }
      }
      if (prepared_count_ == parts_.size()) {
        return std::nullopt;
      }
      parts_[prepared_count_].prepare();
      const std::lock_guard printing(printing_);
      print(prepared_count_, parts_[prepared_count_].title());
      conclude_if_done(prepared_count_);  // it may have nothing to do
      ++prepared_count_;
    }
  }

  // Now, if all experiments before it are concluded, or after them.
  void print(size_t part, const std::string& text) {
    texts_[part] += text;
    for (; front_ < parts_.size(); ++front_) {
      print_output(std::exchange(texts_[front_], {}));
      if (!is_concluded_[front_]) {
        break;
      }
    }
    static_cast<void>(flush_output());  // main() tells of what is lost
  }

  void conclude_if_done(size_t part) {
    if (parts_[part].has_all_curves()) {
      is_concluded_[part] = true;
      print(part, parts_[part].conclude());
    }
  }

  const CampaignOptions& options_;
  std::vector<CampaignPart> parts_;
  std::mutex taking_;
  size_t prepared_count_ = 0;
  std::mutex printing_;             // taken last
  size_t front_ = 0;                // the first experiment that is not concluded
  std::vector<std::string> texts_;  // that wait to be printed, by experiment
  std::vector<bool> is_concluded_;
};

}  // namespace

std::vector<Outcome> run_experiments(std::span<const Experiment* const> experiments, const CampaignOptions& options) {
  return Campaign(experiments, options).run();
}

}  // namespace gradstream
