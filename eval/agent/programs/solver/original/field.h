// An array of one number for each point, on the device.
#pragma once
#include "check.h"
#include <utility>
#include <vector>

class Field {
public:
    explicit Field(size_t size) : size_(size)
    {
        check(cudaMalloc(&data_, size * sizeof(float)), "allocating a field");
        check(cudaMemset(data_, 0, size * sizeof(float)), "clearing a field");
    }
    Field(const Field &) = delete;
    Field &operator=(const Field &) = delete;
    ~Field() { cudaFree(data_); }

    float *data() { return data_; }
    const float *data() const { return data_; }
    size_t size() const { return size_; }

    void upload(const std::vector<float> &from)
    {
        check(cudaMemcpy(data_, from.data(), size_ * sizeof(float), cudaMemcpyHostToDevice), "uploading");
    }
    std::vector<float> download() const
    {
        std::vector<float> to(size_);
        check(cudaMemcpy(to.data(), data_, size_ * sizeof(float), cudaMemcpyDeviceToHost), "downloading");
        return to;
    }

private:
    float *data_ = nullptr;
    size_t size_;
};
