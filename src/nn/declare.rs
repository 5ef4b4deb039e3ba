//! `module!`: the declaration of the tensors of a struct.

/// Implements [`Module`](crate::nn::Module) for a struct: its parameters are those of the listed fields, in
/// this order.
///
/// `field = Role` states the role of the tensors of a field ([`Role`](crate::nn::Role)). Without it
/// a tensor is a weight, and a layer in the field keeps the roles that it states itself. Fields
/// after `state` are saved and never trained.
///
/// ```
/// use emmy::{Real, Tensor, nn::{Linear, Module, Role, entries}};
/// struct Affine<F: Real> {
///     weight: Tensor<F>,
///     bias: Option<Tensor<F>>,
///     mean: Tensor<F>,
/// }
/// emmy::module!(Affine: weight = Weight, bias = Bias; state mean);
///
/// let zeros = |shape: &[usize]| Tensor::<f32>::zeros(shape);
/// let layer = Affine { weight: zeros(&[2, 3]), bias: Some(zeros(&[2])), mean: zeros(&[3]) };
/// let [weight, bias, mean] = &entries(&layer)[..] else { panic!("three tensors") };
/// assert_eq!((weight.role, &*bias.name, mean.role), (Role::Weight, "bias", Role::State));
/// assert_eq!(layer.tensors(), [&layer.weight, layer.bias.as_ref().unwrap()]);
///
/// // A struct of one type of numbers says which.
/// struct Net {
///     layers: [Linear<f32>; 2],
/// }
/// emmy::module!(Net for f32: layers);
/// ```
///
/// # Names in PyTorch
/// If PyTorch (or PyTorch Geometric) has another name for a field, this name follows the field:
///
/// ```
/// use emmy::{Real, Tensor, nn::Linear, store::weights};
/// struct Attention<F: Real> {
///     query: Linear<F>,
///     value: Linear<F>,
///     output: Linear<F>,
///     gate: Tensor<F>,
///     scores: Tensor<F>,
///     head: Option<Linear<F>>,
/// }
/// emmy::module!(Attention:
///     query in "in_proj_*",           // some rows of one tensor, which all fields of this name share
///     value in "in_proj_*",
///     output as "out_proj",           // another name
///     gate = Gain as "g" [_, 0],      // and an axis of size 1 before ours
///     scores as "s" [1, 0],           // transposed
///     head as "head" else output,     // if there is no head, PyTorch has a copy of the output
/// );
/// # let rng = &mut emmy::init::rng(0);
/// # let mut linear = || Linear::<f32>::new(4, 4, false, rng);
/// # let model = Attention {
/// #     query: linear(), value: linear(), output: linear(), head: None,
/// #     gate: Tensor::ones(vec![4]), scores: Tensor::ones(vec![4, 3]),
/// # };
/// let keys = weights::keys(&model);
/// let names: Vec<_> = keys.iter().map(|(key, shape)| format!("{key} {shape:?}")).collect();
/// assert_eq!(names, [
///     "in_proj_weight [8, 4]", "out_proj.weight [4, 4]", "g [1, 4]", "s [3, 4]", "head.weight [4, 4]",
/// ]);
/// ```
///
/// [`TorchName`](crate::nn::TorchName) says what a name may hold; [`store::weights`](crate::store::weights)
/// writes and reads files under these names.
///
/// # Other fields
/// The compiler rejects a field that holds no parameters, with a message that says so:
///
/// ```compile_fail,E0277
/// use emmy::{Real, Tensor};
/// struct Scaled<F: Real> {
///     weight: Tensor<F>,
///     width: usize,
/// }
/// emmy::module!(Scaled: weight, width); // error: `usize` holds no parameters of type `F`
/// ```
#[macro_export]
macro_rules! module {
    ($name:ident for $float:ty: $($rest:tt)*) => {
        $crate::module!(@impl [] [$name] [$float] $($rest)*);
    };
    (@impl [$($generics:tt)*] [$name:ty] [$float:ty]
        $($field:ident $(= $role:ident)?
            $(as $torch:literal $([$($axis:tt),*])? $(else $twin:ident)?)?
            $(in $whole:literal $([$($part:tt),*])? $(else $other:ident)?)?
        ),* $(,)?
        $(; state $($state:ident $(as $state_torch:literal $([$($state_axis:tt),*])?)?),+ $(,)?)?) => {
        impl<$($generics)*> $crate::nn::Module<$float> for $name {
            fn collect<'a>(&'a self, out: &mut $crate::nn::Fields<&'a $crate::Tensor<$float>>) {
                $(
                    let torch = $crate::module!(@torch
                        $(as $torch $([$($axis),*])?)? $(in $whole $([$($part),*])?)?);
                    out.field(stringify!($field), $crate::module!(@role $($role)?), torch, |out| {
                        $crate::nn::Module::<$float>::collect(&self.$field, out)
                    });
                    $($(if self.$field.is_none() {
                        out.copies(stringify!($field), torch, |out| {
                            $crate::nn::Module::<$float>::collect(&self.$twin, out)
                        });
                    })?)?
                    $($(if self.$field.is_none() {
                        out.copies(stringify!($field), torch, |out| {
                            $crate::nn::Module::<$float>::collect(&self.$other, out)
                        });
                    })?)?
                )*
                $($(
                    let torch = $crate::module!(@torch $(as $state_torch $([$($state_axis),*])?)?);
                    let role = ::std::option::Option::Some($crate::nn::Role::State);
                    out.field(stringify!($state), role, torch, |out| {
                        $crate::nn::Module::<$float>::collect(&self.$state, out)
                    });
                )+)?
            }

            fn collect_mut<'a>(&'a mut self, out: &mut $crate::nn::Fields<&'a mut $crate::Tensor<$float>>) {
                $(
                    let torch = $crate::nn::TorchName::default();
                    out.field(stringify!($field), $crate::module!(@role $($role)?), torch, |out| {
                        $crate::nn::Module::<$float>::collect_mut(&mut self.$field, out)
                    });
                )*
                $($(
                    let torch = $crate::nn::TorchName::default();
                    let role = ::std::option::Option::Some($crate::nn::Role::State);
                    out.field(stringify!($state), role, torch, |out| {
                        $crate::nn::Module::<$float>::collect_mut(&mut self.$state, out)
                    });
                )+)?
            }
        }
    };
    (@role) => { ::std::option::Option::None };
    (@role $role:ident) => { ::std::option::Option::Some($crate::nn::Role::$role) };
    (@torch $(as $as:literal $([$($axis:tt),*])?)? $(in $in:literal $([$($part:tt),*])?)?) => {{
        #[allow(unused_mut)]
        let mut torch = $crate::nn::TorchName::default();
        $(
            torch.pattern = ::std::option::Option::Some($as);
            $(torch.axes = ::std::option::Option::Some(&[$($crate::module!(@axis $axis)),*]);)?
        )?
        $(
            (torch.pattern, torch.joined) = (::std::option::Option::Some($in), true);
            $(torch.axes = ::std::option::Option::Some(&[$($crate::module!(@axis $part)),*]);)?
        )?
        torch
    }};
    (@axis _) => { ::std::option::Option::None };
    (@axis $axis:literal) => { ::std::option::Option::Some($axis) };
    ($name:ident: $($rest:tt)*) => {
        $crate::module!(@impl [F: $crate::Real] [$name<F>] [F] $($rest)*);
    };
}
