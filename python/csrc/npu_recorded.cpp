// Recurrent layers. PyTorch takes them apart by rules of its own for every device, and only then records their
// gradients; so the whole layer is run, and recorded, on CPU tensors over the same bytes; the gradient asks the record.
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include "npu_call.h"

namespace gradus::npu {
namespace {

using torch::autograd::variable_list;

// The record: what went in and came out as CPU tensors, and between them PyTorch's graph.
struct Recorded final : torch::autograd::Node {
    variable_list apply(variable_list&& grads) override {
        TORCH_CHECK(!c10::GradMode::is_enabled(), "a recurrent layer on the npu device has no second derivative");
        TORCH_CHECK(!results.empty(), "Trying to backward through the graph a second time: specify retain_graph=True");
        variable_list wanted, of, with;
        for (const at::Tensor& leaf : leaves)
            if (leaf.requires_grad()) wanted.push_back(leaf);
        for (size_t i = 0; i < results.size(); ++i) {
            if (!results[i].requires_grad() || !grads[i].defined()) continue;
            of.push_back(results[i]);
            with.push_back(cpu_tensor_over(grads[i]));
        }
        const Inside inside(device.index());
        const variable_list found = torch::autograd::grad(of, wanted, with, true, false, true);
        variable_list all;
        for (size_t i = 0, next = 0; i < leaves.size(); ++i) {
            const at::Tensor grad = leaves[i].requires_grad() ? found[next++] : at::Tensor();
            all.push_back(grad.defined() ? device_tensor_over(grad, device) : at::Tensor());
        }
        return all;
    }
    void release_variables() override {
        leaves.clear();
        results.clear();
    }

    c10::Device device = c10::kCPU;
    variable_list leaves, results;
};

void run_recorded(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const size_t count = op.schema().arguments().size();
    torch::jit::Stack lent(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
    Call call(op);
    for (size_t i = 0; i < count; ++i) call.lend(lent[i], i);
    variable_list inputs;
    for (const Lent<at::Tensor>& pair : call.tensors()) inputs.push_back(pair.npu);
    if (!torch::autograd::compute_requires_grad(at::TensorList(inputs))) return run_on_cpu(op, stack);

    const auto record = c10::make_intrusive<Recorded>();
    record->set_next_edges(torch::autograd::collect_next_edges(inputs));
    record->device = call.target();
    for (const Lent<at::Tensor>& pair : call.tensors())
        record->leaves.push_back(pair.cpu.set_requires_grad(pair.npu.requires_grad()));
    {
        const Inside inside(record->device.index());
        op.callBoxed(&lent);
    }
    torch::jit::drop(*stack, count);
    for (const c10::IValue& result : lent) {
        record->results.push_back(result.toTensor());
        at::Tensor output = device_tensor_over(result.toTensor(), record->device);
        torch::autograd::set_history(output, record);
        stack->emplace_back(std::move(output));
    }
}

constexpr const char* kRecurrent[] = {"lstm.input",     "lstm.data",     "gru.input",      "gru.data",
                                      "rnn_tanh.input", "rnn_tanh.data", "rnn_relu.input", "rnn_relu.data",
                                      "lstm_cell",      "gru_cell",      "rnn_tanh_cell",  "rnn_relu_cell"};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    for (const char* name : kRecurrent) library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
    for (const char* name : kRecurrent) library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_recorded>());
}

}  // namespace
}  // namespace gradus::npu
