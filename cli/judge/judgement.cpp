// A judgement by its names, and as JSON.
#include "cli/base/json.h"
#include "cli/judge/judge.h"

namespace gradus::cli {

const char* verdict_name(Verdict verdict) {
    static const char* const names[] = {"equal", "kept", "rounded", "imprecise", "wrong"};
    return names[static_cast<int>(verdict)];
}

Rules rules_of(aclDataType dtype) {
    if (dtype == ACL_FLOAT16) return {0x1p-9, 0x1p-9, 0x1p-10};
    if (dtype == ACL_BF16) return {0x1p-6, 0x1p-6, 0x1p-7};
    if (grid_of(dtype).integer) return {0, 0, 1};
    return {0x1p-10, 0x1p-16, 0x1p-13};
}

nlohmann::json Judgement::json(const Shape& shape) const {
    nlohmann::json bins = histogram, elements = nlohmann::json::array(), found = nlohmann::json::array();
    for (const Element& e : worst)
        elements.push_back({{"index", index_text(shape, e.index)},
                            {"flat_index", e.index},
                            {"got", json_number(e.got)},
                            {"want", json_number(e.want)},
                            {"ulps", json_number(e.ulps)}});
    for (const Cause& cause : causes) found.push_back({{"share", cause.share}, {"sentence", cause.sentence}});
    nlohmann::json json = {
        {"verdict", verdict_name(verdict)},
        {"pass", passes(verdict)},
        {"reason", reason},
        {"causes", found},
        {"assumed", assumed},
        {"dtype", dtype_name(dtype)},
        {"shape", shape},
        {"count", count},
        {"differing", differing},
        {"beyond", {{"kept", beyond_kept}, {"rounded", beyond_rounded}, {"any", beyond_any}}},
        {"allowed", {{"kept", kept_share}, {"rounded", rounded_share}, {"any", any_share}}},
        {"of_magnitude",
         {{"worst", json_number(worst_share)}, {"typical", noise}, {"rounding", rounding_noise}, {"in", noise_of}}},
        {"ulps", {{"worst", json_number(worst_ulps)}, {"mean", mean_ulps}, {"bias", bias_ulps}, {"histogram", bins}}},
        {"relative_l2", json_number(relative_l2)},
        {"correlation", json_number(correlation)},
        {"rule_a", {{"pass", rule_a}, {"within", within_cann}, {"rtol", rules.rtol}, {"atol", rules.atol}}},
        {"rule_b", {{"pass", rule_b}, {"mean", mean_relative}, {"worst", worst_relative}, {"limit", rules.relative}}},
        {"nan", {{"got", nan_got}, {"want", nan_want}, {"extra", nan_extra}, {"missing", nan_missing}}},
        {"inf", {{"extra", inf_extra}, {"missing", inf_missing}}},
        {"worst", elements}};
    if (outside_own) json["own"] = {{"outside", *outside_own}, {"rtol", own_rtol}, {"atol", own_atol}};
    return json;
}

}  // namespace gradus::cli
