// Bytes as a .npy or .npz file of the tool: read, or refused with a sentence; what is read is written and read again.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "cli/base/failure.h"
#include "cli/tensor/files.h"
#include "cli/tensor/slice.h"
#include "fuzz/input.h"
#include "fuzz/report.h"

namespace gradus::fuzz {
namespace {

using cli::Tensor;

class Folder {
  public:
    Folder() : path_(std::filesystem::temp_directory_path() / ("gradus_fuzz_" + std::to_string(getpid()))) {
        std::filesystem::create_directory(path_);
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string file(const char* name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

bool same(const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && a.shape() == b.shape() &&
           std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

// Runs a step; a refusal is the user's mistake and has a reason, and nothing else may come out of it.
template <typename F>
bool taken(const F& step) {
    try {
        step();
        return true;
    } catch (const cli::Failure& refusal) {
        if (refusal.exit != cli::kUsage || refusal.what()[0] == '\0' || planted("refusal"))
            fail("refusal", std::string("exit ") + std::to_string(refusal.exit) + ": " + refusal.what());
    } catch (const std::exception& error) {
        fail("refusal", std::string("an exception of its own: ") + error.what());
    }
    return false;
}

}  // namespace
}  // namespace gradus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace gradus;        // NOLINT(google-build-using-namespace)
    using namespace gradus::fuzz;  // NOLINT(google-build-using-namespace)
    cli::stream();                 // before the folder, which goes first
    static const Folder folder;
    Input in(data, size);
    const bool archive = in.one_in(2), doubles = in.one_in(2);
    const aclDataType wanted =
        in.pick({ACL_DT_UNDEFINED, ACL_DT_UNDEFINED, ACL_BF16, ACL_FLOAT16, ACL_INT32, ACL_UINT8});
    std::string slice;
    for (int64_t n = in.one_in(2) ? in.between(1, 10) : 0; n > 0; --n) slice += "0123456789:-., "[in.below(15)];
    const std::string path = folder.file(archive ? "case.npz" : "case.npy"), again = folder.file("again.npy");
    const std::string content = in.rest();
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    set_case(std::string(archive ? "npz" : "npy") + " of " + std::to_string(content.size()) + " bytes" +
             (wanted == ACL_DT_UNDEFINED ? "" : std::string(" as ") + cli::dtype_name(wanted)) + " [" + slice + "]");
    count("files");
    taken([&] {
        if (archive) count("members", static_cast<int64_t>(cli::members_of(path).size()));
    });
    taken([&] {
        const Tensor tensor = cli::read_npy(path, wanted == ACL_DT_UNDEFINED ? nullptr : &wanted, doubles);
        count("files accepted");
        cli::write_tensor(again, tensor);
        if (planted("round trip")) std::filesystem::resize_file(again, std::filesystem::file_size(again) - 1);
        std::optional<Tensor> back;
        if (!taken([&] { back = cli::read_npy(again, nullptr, true); }) || !same(tensor, *back))
            fail("round trip", cli::text(tensor.shape()) + " of " + cli::dtype_name(tensor.dtype()));
        if (!slice.empty()) cli::sliced(tensor, slice);
    });
    return 0;
}
