/** The part of the package that is used; its own types are not reachable through its export map. */
declare module 'cephes' {
  export const compiled: Promise<void>;
  export function ndtri(p: number): number;
  export function ndtr(x: number): number;
  export function stdtri(df: number, p: number): number;
  export function stdtr(df: number, t: number): number;
  export function incbi(a: number, b: number, p: number): number;
  export function incbet(a: number, b: number, x: number): number;
  export function lbeta(a: number, b: number): number;
  export function bdtr(k: number, n: number, p: number): number;
}
