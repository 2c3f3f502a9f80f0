//! Which GPUs this machine has, or why there are none. Never panics, never takes memory.

use std::ffi::c_int;

use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};

use super::call::message_of;

/// A GPU that Terrace can run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaInfo {
    /// As in `cuda:0`.
    pub ordinal: usize,
    pub name: String,
    pub memory_bytes: usize,
    pub compute_capability: (u32, u32),
    pub multiprocessors: usize,
}

/// Why no GPU can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaMissing {
    #[error("there is no NVIDIA driver (libcuda) on this machine")]
    NoDriver,
    #[error(
        "the NVIDIA driver speaks CUDA {found}, at least {OLDEST_NAME} is needed; \
         install driver {OLDEST_DRIVER} or newer"
    )]
    DriverTooOld { found: String },
    #[error("the NVIDIA driver finds no usable GPU: {0}")]
    NoDevice(String),
}

/// The kernels' PTX is of CUDA 12.4, which drivers from 550 on understand.
const OLDEST: c_int = 12_040;
const OLDEST_NAME: &str = "12.4";
const OLDEST_DRIVER: &str = "550";
/// bf16 tensor cores and asynchronous copies: Ampere.
const OLDEST_MAJOR: u32 = 8;

/// The GPUs of this machine, in the driver's order.
pub fn probe() -> Result<Vec<CudaInfo>, CudaMissing> {
    // SAFETY: opens the library and closes it again.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaMissing::NoDriver);
    }
    let mut version = 0;
    // SAFETY: the call writes one number; every driver has it.
    let code = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    succeed(code)?;
    if version < OLDEST {
        let found = format!("{}.{}", version / 1000, version % 1000 / 10);
        return Err(CudaMissing::DriverTooOld { found });
    }
    let mut count = 0;
    // SAFETY: initialisation may be repeated; the count is one number.
    unsafe {
        succeed(sys::cuInit(0))?;
        succeed(sys::cuDeviceGetCount(&raw mut count))?;
    }
    let devices = (0..count).map(describe).collect::<Result<Vec<_>, _>>()?;
    if devices.is_empty() {
        return Err(CudaMissing::NoDevice("none is installed".into()));
    }
    let usable: Vec<_> =
        devices.iter().filter(|gpu| OLDEST_MAJOR <= gpu.compute_capability.0).cloned().collect();
    if usable.is_empty() {
        let (major, minor) = devices[0].compute_capability;
        let why = format!(
            "{} has compute capability {major}.{minor}, at least {OLDEST_MAJOR}.0 is needed",
            devices[0].name
        );
        return Err(CudaMissing::NoDevice(why));
    }
    Ok(usable)
}

fn describe(ordinal: c_int) -> Result<CudaInfo, CudaMissing> {
    let mut device = 0;
    let mut name = [0; 128];
    let mut memory_bytes = 0;
    // SAFETY: the ordinal is below the driver's count; the name's length is given.
    unsafe {
        succeed(sys::cuDeviceGet(&raw mut device, ordinal))?;
        succeed(sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, device))?;
        succeed(sys::cuDeviceTotalMem_v2(&raw mut memory_bytes, device))?;
    }
    let name: Vec<u8> = name.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    let read = |attribute| read_attribute(device, attribute);
    use CUdevice_attribute as Attribute;
    Ok(CudaInfo {
        ordinal: ordinal as usize,
        name: String::from_utf8_lossy(&name).into_owned(),
        memory_bytes,
        compute_capability: (
            read(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
            read(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
        ),
        multiprocessors: read(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
    })
}

fn read_attribute(device: c_int, attribute: CUdevice_attribute) -> Result<c_int, CudaMissing> {
    let mut value = 0;
    // SAFETY: the call writes one number.
    succeed(unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, device) })?;
    Ok(value)
}

fn succeed(code: CUresult) -> Result<(), CudaMissing> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        other => Err(CudaMissing::NoDevice(message_of(other))),
    }
}
